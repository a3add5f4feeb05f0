"""Finished assets and a frozen pool -> plans of clips -> renders -> clips of the dataset, validated; their control videos, the training export, and the split whole."""

from sam3dvid.composite.books import portable
from shardwork.jsonio import dumps

CLIP_PLACES = clip_stage.clip_places(RUN / "plans", RUN / "renders", RUN / "clips", RUN / "dataset", RUN / "controls" / "clips")
PLANS, RENDERS, CLIPS = CLIP_PLACES.plans, CLIP_PLACES.renders, CLIP_PLACES.clips
CLIP_POOL = Path(getattr(CONFIG.backgrounds, CONFIG.clips.pool).pool)
CLIP_SHARDS = clip_stage.clip_shards(CONFIG.clips.count, CONFIG.clips.clips_per_shard, CONFIG.clips.first)
PLAN_SETTINGS = as_flags(CONFIG.clips.settings())
# clips are planned from all assets and backgrounds that passed: their gates come first, which also clear what belongs to no row
CLIP_INPUTS = [gate_of(branch) for branch in ("assets", CONFIG.clips.pool) if branch in BRANCHES]
CLIP_STOCK = [str(path) for branch in ("assets", CONFIG.clips.pool) if branch in BRANCHES for path in BRANCHES[branch]["manifests"]]
if CONFIG.clips.pool not in BRANCHES:
    CLIP_STOCK.append(sha256_file(CLIP_POOL / clip_stage.SELECTION))
PLAN_KEYS = {
    shard: key_of(clip_stage.PLAN_VERSION, PLAN_SETTINGS, CONFIG.redo.clips, CONFIG.clips.split, ids, CLIP_STOCK) for shard, ids in CLIP_SHARDS.items()
}
CLIPS_PLANNED = {shard: PLANS.manifest(clip_stage.PLAN_STEP, shard, key) for shard, key in PLAN_KEYS.items()}
RENDER_SETTINGS = as_flags(CONFIG.clips.render.settings())
CLIPS_RENDERED = {
    shard: RENDERS.manifest(clip_stage.RENDER_STEP, shard, key_of(clip_stage.RENDER_VERSION, RENDER_SETTINGS, planned.name))
    for shard, planned in CLIPS_PLANNED.items()
}
CLIPS_COMPOSITED = {
    shard: CLIPS.manifest("composite_clips", shard, key_of(clip_stage.COMPOSITE_VERSION, rendered.name)) for shard, rendered in CLIPS_RENDERED.items()
}
CLIPS_VALIDATED = {
    shard: CLIPS.manifest("validate_clips", shard, key_of(clip_stage.VALIDATE_CLIPS_VERSION, CONFIG.clips.any_size, composited.name))
    for shard, composited in CLIPS_COMPOSITED.items()
}
CLIP_VIDEOS = {
    shard: CLIP_PLACES.controls.manifest(clip_stage.CLIP_CONTROLS_STEP, shard, key_of(clip_stage.CLIP_CONTROLS_VERSION, CONFIG.clips.fps, validated.name))
    for shard, validated in CLIPS_VALIDATED.items()
    if CONFIG.clips.controls
}
CLIP_MANIFESTS = [*CLIPS_COMPOSITED.values(), *CLIPS_VALIDATED.values()]
CLIP_CUT = {"split": CONFIG.clips.split, "clips_per_shard": CONFIG.clips.clips_per_shard}
CLIP_FOLDERS = {"dataset": RUN / "dataset", "split": CONFIG.clips.split}
# Files of a dataset bear fixed names, so this mark stands for the key of its manifest: without Snakemake's own records too, a change asks for another file.
CLIP_CONFIG = dumps(portable(CONFIG.model_dump(include={"run", "redo", "assets", "backgrounds", "clips"}, exclude={"clips": {"export"}})))
CLIP_MANIFEST_KEY = key_of(clip_stage.CLIP_MANIFEST_VERSION, CLIP_CONFIG, [path.name for path in CLIPS_VALIDATED.values()])
CLIP_MANIFEST_MARK = clip_stage.clip_manifest_mark(CLIPS, CLIP_MANIFEST_KEY)
CLIP_BOOKS = [RUN / "dataset" / name for name in (clip_stage.MANIFEST, clip_stage.CONFIG)]
CLIP_EXPORT = RUN / "export" / CONFIG.clips.split
CLIP_EXPORT_SETTINGS = {**CONFIG.clips.export.settings(), "any_size": CONFIG.clips.any_size, "release_licenses": CONFIG.assets.release_licenses}
CLIP_SHIPPED = clip_stage.shipped(RUN / "ship", CONFIG.clips.split)
CLIP_SHIP_SETTINGS = {key: CLIP_EXPORT_SETTINGS[key] for key in ("releasable_only", "release_licenses", "any_size")}
PLAN_SHEET = RUN / "report" / "plans.png"
BRANCHES["clips"] = {
    "manifests": [*CLIPS_PLANNED.values(), *CLIPS_RENDERED.values(), *CLIP_MANIFESTS, *CLIP_VIDEOS.values()],
    "built": [PLAN_SHEET, CLIP_MANIFEST_MARK, *CLIP_BOOKS, clip_stage.export_index(CLIP_EXPORT)],
    "release": RUN / "dataset",
    "table": [],
    "flags": as_flags(
        {
            **CLIP_CUT,
            "clips": CONFIG.clips.count,
            "first": CONFIG.clips.first,
            "stage": PLANS.stage,
            "renders": RENDERS.stage,
            "finished": CLIPS.stage,
            "dataset": RUN / "dataset",
            "controls": CONFIG.clips.controls,
            "controls_stage": CLIP_PLACES.controls.stage,
        }
    ),
    "max_quarantined": CONFIG.clips.max_quarantined,
}


localrules:
    write_clip_manifest,


rule plan_clips:
    input:
        gates=CLIP_INPUTS,
    output:
        manifest=PLANS.manifest(clip_stage.PLAN_STEP, "{shard}", "{key}"),
    log:
        LOGS / "plan_clips" / "{shard}.{key}.log",
    benchmark:
        LOGS / "plan_clips" / "{shard}.{key}.tsv"
    conda:
        "../envs/clips.yaml"
    threads: CONFIG.clips.workers
    resources:
        mem_mb=lambda wildcards, attempt: attempt * (1000 + 1000 * CONFIG.clips.workers),
        runtime=lambda wildcards, attempt: attempt * 120,
    params:
        version=clip_stage.PLAN_VERSION,
        check=CHECK,
        settings=PLAN_SETTINGS,
        flags=as_flags({**CLIP_CUT, "dataset": RUN / "dataset", "voxels": RUN / "voxels", "pool": CLIP_POOL, "stage": PLANS.stage, "redo": CONFIG.redo.clips}),
    shell:
        step("plan_clips", verify=CONFIG.verify, clips=CONFIG.clips.count, first=CONFIG.clips.first)
        + " --shard={wildcards.shard} --key={wildcards.key} {params.flags} --workers={threads} {params.settings} 2> {log:q}"


rule draw_plans:
    input:
        manifests=list(CLIPS_PLANNED.values()),
    output:
        sheet=PLAN_SHEET,
    log:
        LOGS / "draw_plans.log",
    benchmark:
        LOGS / "draw_plans.tsv"
    conda:
        "../envs/clips.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 2000,
        runtime=30,
    params:
        version=1,
        flags=as_flags(
            {**CLIP_CUT, "clips": CONFIG.clips.count, "first": CONFIG.clips.first, "dataset": RUN / "dataset", "pool": CLIP_POOL, "stage": PLANS.stage}
        ),
    shell:
        step("draw_plans") + " {params.flags} --out={output.sheet:q} 2> {log:q}"


rule render_clips:
    input:
        manifest=lambda wildcards: CLIPS_PLANNED[wildcards.shard],
    output:
        manifest=RENDERS.manifest(clip_stage.RENDER_STEP, "{shard}", "{key}"),
    log:
        LOGS / "render_clips" / "{shard}.{key}.log",
    benchmark:
        LOGS / "render_clips" / "{shard}.{key}.tsv"
    conda:
        "../envs/blender.yaml"
    threads: CONFIG.clips.render.threads
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 4000,
        runtime=lambda wildcards, attempt: attempt * 480,
        gpu=int(CONFIG.clips.render.device == "gpu"),
    params:
        version=clip_stage.RENDER_VERSION,
        check=CHECK,
        settings=RENDER_SETTINGS,
        limit=CONFIG.clips.render.clip_seconds,  # another limit is a reason to try again what was given up, and renders nothing else
        flags=as_flags({**CLIP_FOLDERS, "plans": PLANS.stage, "stage": RENDERS.stage, "redo": CONFIG.redo.clips}),
    shell:
        step("render_clips", verify=CONFIG.verify, **CONFIG.clips.render.host())
        + " --shard={wildcards.shard} --key={wildcards.key} {params.flags} --threads={threads} {params.settings} 2> {log:q}"


rule composite_clips:
    input:
        manifest=lambda wildcards: CLIPS_RENDERED[wildcards.shard],
        planned=lambda wildcards: CLIPS_PLANNED[wildcards.shard],
    output:
        manifest=CLIPS.manifest("composite_clips", "{shard}", "{key}"),
    log:
        LOGS / "composite_clips" / "{shard}.{key}.log",
    benchmark:
        LOGS / "composite_clips" / "{shard}.{key}.tsv"
    conda:
        "../envs/clips.yaml"
    threads: CONFIG.clips.workers
    resources:
        mem_mb=lambda wildcards, attempt: attempt * (500 + 1000 * CONFIG.clips.workers),
        runtime=lambda wildcards, attempt: attempt * 120,
    params:
        version=clip_stage.COMPOSITE_VERSION,
        check=CHECK,
        flags=as_flags(
            {
                **CLIP_FOLDERS,
                "plans": PLANS.stage,
                "renders": RENDERS.stage,
                "pool": CLIP_POOL,
                "stage": CLIPS.stage,
                "redo": CONFIG.redo.clips,
            }
        ),
    shell:
        step("composite_clips", verify=CONFIG.verify) + " --shard={wildcards.shard} --key={wildcards.key} {params.flags} --workers={threads} 2> {log:q}"


rule validate_clips:
    input:
        manifest=lambda wildcards: CLIPS_COMPOSITED[wildcards.shard],
    output:
        manifest=CLIPS.manifest("validate_clips", "{shard}", "{key}"),
    log:
        LOGS / "validate_clips" / "{shard}.{key}.log",
    benchmark:
        LOGS / "validate_clips" / "{shard}.{key}.tsv"
    conda:
        "../envs/clips.yaml"
    threads: CONFIG.clips.workers
    resources:
        mem_mb=lambda wildcards, attempt: attempt * (500 + 1000 * CONFIG.clips.workers),
        runtime=lambda wildcards, attempt: attempt * 120,
    params:
        version=clip_stage.VALIDATE_CLIPS_VERSION,
        check=CHECK,
        settings=as_flags({"any_size": CONFIG.clips.any_size}),
        flags=as_flags({**CLIP_FOLDERS, "stage": CLIPS.stage, "redo": CONFIG.redo.clips}),
    shell:
        step("validate_clips", verify=CONFIG.verify)
        + " --shard={wildcards.shard} --key={wildcards.key} {params.flags} --workers={threads} {params.settings} 2> {log:q}"


if CONFIG.clips.controls:

    rule render_clip_controls:
        input:
            made=lambda wildcards: CLIPS_COMPOSITED[wildcards.shard],
            validated=lambda wildcards: CLIPS_VALIDATED[wildcards.shard],
        output:
            manifest=CLIP_PLACES.controls.manifest(clip_stage.CLIP_CONTROLS_STEP, "{shard}", "{key}"),
        log:
            LOGS / "render_clip_controls" / "{shard}.{key}.log",
        benchmark:
            LOGS / "render_clip_controls" / "{shard}.{key}.tsv"
        conda:
            "../envs/clips.yaml"
        threads: CONFIG.clips.workers
        resources:
            mem_mb=lambda wildcards, attempt: attempt * (500 + 500 * CONFIG.clips.workers),
            runtime=lambda wildcards, attempt: attempt * 120,
        params:
            version=clip_stage.CLIP_CONTROLS_VERSION,
            check=CHECK,
            settings=as_flags({"fps": CONFIG.clips.fps}),
            flags=as_flags({**CLIP_FOLDERS, "clips": CLIPS.stage, "stage": CLIP_PLACES.controls.stage, "redo": CONFIG.redo.clips}),
        shell:
            step("render_clip_controls", verify=CONFIG.verify)
            + " --shard={wildcards.shard} --key={wildcards.key} {params.flags} --workers={threads} {params.settings} 2> {log:q}"


rule write_clip_manifest:
    input:
        manifests=CLIP_MANIFESTS,
    output:
        books=CLIP_BOOKS,
        mark=CLIP_MANIFEST_MARK,
    log:
        LOGS / "write_clip_manifest.log",
    benchmark:
        LOGS / "write_clip_manifest.tsv"
    conda:
        "../envs/clips.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 1000,
        runtime=30,
    params:
        version=clip_stage.CLIP_MANIFEST_VERSION,
        config=CLIP_CONFIG,
        flags=as_flags(
            {
                "clips": CONFIG.clips.count,
                "first": CONFIG.clips.first,
                "clips_per_shard": CONFIG.clips.clips_per_shard,
                "stage": CLIPS.stage,
                "dataset": RUN / "dataset",
            }
        ),
    shell:
        step("write_clip_manifest", key=CLIP_MANIFEST_KEY) + " {params.flags} --config={params.config:q} 2> {log:q}"


# One job with workers: shards are cut from all clips that passed, so that the rule and the command line give the same bytes.
rule export_clips:
    input:
        books=CLIP_BOOKS,
        mark=CLIP_MANIFEST_MARK,
    output:
        index=clip_stage.export_index(CLIP_EXPORT),
    log:
        LOGS / "export_clips.log",
    benchmark:
        LOGS / "export_clips.tsv"
    conda:
        "../envs/clips.yaml"
    threads: CONFIG.clips.workers
    resources:
        mem_mb=lambda wildcards, attempt: attempt * (500 + 500 * CONFIG.clips.workers),
        runtime=lambda wildcards, attempt: attempt * 240,
    params:
        version=clip_stage.EXPORT_VERSION,
        check=CHECK,
        settings=as_flags(CLIP_EXPORT_SETTINGS),
        flags=as_flags({**CLIP_FOLDERS, "out": CLIP_EXPORT}),
    shell:
        step("export_clips") + " {params.flags} --workers={threads} {params.settings} --replan 2> {log:q}"


# A target by itself and no part of `all`: the tar is as large as the dataset.
rule ship_eval:
    input:
        books=CLIP_BOOKS,
        mark=CLIP_MANIFEST_MARK,
    output:
        files=CLIP_SHIPPED,
    log:
        LOGS / "ship_eval.log",
    benchmark:
        LOGS / "ship_eval.tsv"
    conda:
        "../envs/clips.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 1000,
        runtime=lambda wildcards, attempt: attempt * 240,
    params:
        version=clip_stage.SHIP_VERSION,
        check=CHECK,
        settings=as_flags(CLIP_SHIP_SETTINGS),
        flags=as_flags(CLIP_FOLDERS),
    shell:
        step("ship_eval") + " {params.flags} --out={output.files[0]:q} {params.settings} 2> {log:q}"
