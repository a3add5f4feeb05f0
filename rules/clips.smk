"""Finished assets and a frozen pool -> plans of clips."""

PLANS = clip_stage.plans_place(RUN / "plans")
CLIP_POOL = Path(getattr(CONFIG.backgrounds, CONFIG.clips.pool).pool)
CLIP_SHARDS = clip_stage.clip_shards(CONFIG.clips.count, CONFIG.clips.clips_per_shard)
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
CLIP_CUT = {"split": CONFIG.clips.split, "clips_per_shard": CONFIG.clips.clips_per_shard}
PLAN_SHEET = RUN / "report" / "plans.png"
BRANCHES["clips"] = {
    "manifests": list(CLIPS_PLANNED.values()),
    "built": [PLAN_SHEET],
    "release": PLANS.stage,
    "table": [],
    "flags": as_flags({**CLIP_CUT, "clips": CONFIG.clips.count, "stage": PLANS.stage}),
    "max_quarantined": CONFIG.clips.max_quarantined,
}


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
        step("plan_clips", verify=CONFIG.verify, clips=CONFIG.clips.count)
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
        flags=as_flags({**CLIP_CUT, "clips": CONFIG.clips.count, "dataset": RUN / "dataset", "pool": CLIP_POOL, "stage": PLANS.stage}),
    shell:
        step("draw_plans") + " {params.flags} --out={output.sheet:q} 2> {log:q}"
