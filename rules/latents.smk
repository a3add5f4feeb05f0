"""RGB + control videos of events, clips and a user's records -> plan -> embeddings of all prompts -> latents, verified; one folder for each layout."""

from vidlatents import stage as latent_stage
from vidlatents.buckets import LAYOUTS
from vidlatents.card import TEXT_PARTS, VAE_PARTS, stamp_of
from vidlatents.models import hub_of
from vidlatents.settings import check_budget
from vidlatents.shard_names import short

for name in ("memory_gib", "fallback_gib"):
    checked(check_budget, f"config: latents.{name}", getattr(CONFIG.latents, name))
LATENT_BOOKS = RUN / "latents_books"
TINY_MODEL = LATENT_BOOKS / "models" / f"tiny-{CONFIG.latents.model}-{latent_stage.MODEL_VERSION}"
LATENT_WEIGHTS = CONFIG.latents.weights or hub_of(CONFIG.latents.model)
LATENT_TEXT = CONFIG.latents.text_encoder or LATENT_WEIGHTS
LATENT_TINY = latent_stage.TINY in (LATENT_WEIGHTS, LATENT_TEXT)
# What the keys know of models: of weights in a folder names, sizes and times, since replaced in place they are other ones; of tiny ones, which the run makes, the
# version of the code that makes them.
LATENT_MODEL_KEYS = [
    [name, latent_stage.MODEL_VERSION if name == latent_stage.TINY else stamp_of(name, parts)]
    for name, parts in ((LATENT_WEIGHTS, VAE_PARTS), (LATENT_TEXT, TEXT_PARTS))
]
LATENT_MODELS = [TINY_MODEL / part for part in ("vae/config.json", "text_encoder/config.json", "tokenizer/tokenizer_config.json")] if LATENT_TINY else []
LATENT_MODEL_FLAGS = {
    "books": LATENT_BOOKS,
    "weights": TINY_MODEL if LATENT_WEIGHTS == latent_stage.TINY else LATENT_WEIGHTS,
    "text_encoder": TINY_MODEL if LATENT_TEXT == latent_stage.TINY else LATENT_TEXT,
}
LATENT_GPU = int(CONFIG.latents.device == "gpu" or (CONFIG.latents.device == "auto" and workflow.local_exec and has_gpu()))
LATENT_TEXT_MB = 3000 if LATENT_TEXT == latent_stage.TINY else 28000 if CONFIG.latents.text_dtype == "float32" else 16000
"""The encoder has 5.7 thousand million numbers: 11 GB in 16 bits each, 23 GB in 32."""
LATENT_VAE_MB = 3000 if LATENT_WEIGHTS == latent_stage.TINY else 4000 + 1024 * round(CONFIG.latents.memory_gib or 20)
LATENT_REPORTED = as_flags(CONFIG.latents.for_report())
LATENT_VIDEOS, LATENT_CONTROL_VIDEOS = CONFIG.latents.folders()
LATENT_FOLDERS = {layout: RUN / "latents" / latent_stage.folder_of(CONFIG.latents.model, layout) for layout in LAYOUTS}
LATENT_PLACES = {
    layout: latent_stage.latents_place(LATENT_BOOKS / latent_stage.folder_of(CONFIG.latents.model, layout), folder) for layout, folder in LATENT_FOLDERS.items()
}
LATENT_PLANS = {layout: latent_stage.plans_place(RUN / "latents_plans" / latent_stage.folder_of(CONFIG.latents.model, layout)) for layout in LAYOUTS}
LATENT_TEXTS = latent_stage.text_place(LATENT_BOOKS / "text")


include: "latent_sets.smk"


LATENT_SETTINGS = {layout: as_flags({**CONFIG.latents.for_set(), "layout": layout}) for layout in LAYOUTS}
LATENT_ENCODING = {layout: as_flags({**CONFIG.latents.for_encoding(), "layout": layout}) for layout in LAYOUTS}
checked(lambda: SetSettings(**CONFIG.latents.for_set()))
checked(lambda: TrainerFlags(**CONFIG.latents.for_report()))
LATENT_ROWS = {
    layout: latent_stage.deal_rows(checked(latent_rows, layout), CONFIG.latents.work_shards) for layout in LAYOUTS if any(latent_sources(layout).values())
}
LATENT_CONTROLS = {(layout, shard): latent_controls(rows) for layout, shards in LATENT_ROWS.items() for shard, rows in shards.items()}
LATENTS_PLANNED = {
    (layout, shard): LATENT_PLANS[layout].manifest(
        latent_stage.PLAN_STEP,
        shard,
        key_of(
            latent_stage.PLAN_VERSION,
            LATENT_SETTINGS[layout],
            CONFIG.redo.latents,
            rows_digest(rows, latent_stage.ROW_COLUMNS),
            [path.name for path in LATENT_CONTROLS[layout, shard]],
        ),
    )
    for layout, shards in LATENT_ROWS.items()
    for shard, rows in shards.items()
}
# Of this manifest the name holds no prompts; marks say which plans' prompts it has: a changed one makes its own samples again, and reruns no other shard.
LATENTS_TEXT = LATENT_TEXTS.manifest(
    latent_stage.TEXT_STEP, latent_stage.TEXT_SHARD, key_of(latent_stage.TEXT_VERSION, LATENT_MODEL_KEYS[1], CONFIG.latents.text_dtype, CONFIG.redo.latents)
)
LATENT_PROMPTS = {key: latent_stage.prompts_mark(LATENT_TEXTS, planned, LATENTS_TEXT) for key, planned in LATENTS_PLANNED.items()}
LATENTS_ENCODED = {
    (layout, shard): LATENT_PLACES[layout].manifest(
        latent_stage.ENCODE_STEP, shard, key_of(latent_stage.ENCODE_VERSION, LATENT_ENCODING[layout], LATENT_MODEL_KEYS, planned.name, LATENTS_TEXT.name)
    )
    for (layout, shard), planned in LATENTS_PLANNED.items()
}
LATENTS_VERIFIED = {
    (layout, shard): LATENT_PLACES[layout].manifest(latent_stage.VERIFY_STEP, shard, key_of(latent_stage.VERIFY_VERSION, CONFIG.latents.level, encoded.name))
    for (layout, shard), encoded in LATENTS_ENCODED.items()
}
LATENT_KEYS = {
    layout: key_of(latent_stage.MANIFEST_VERSION, LATENT_REPORTED, [LATENTS_VERIFIED[layout, shard].name for shard in shards])
    for layout, shards in LATENT_ROWS.items()
}
LATENT_BUILT = {
    layout: [
        latent_stage.manifest_mark(LATENT_PLACES[layout], key),
        *(LATENT_PLACES[layout].stage / name for name in (latent_stage.MANIFEST, latent_stage.FAILURES, latent_stage.DATASET)),
    ]
    for layout, key in LATENT_KEYS.items()
}
LATENT_SHARDS = {layout: short(shards) for layout, shards in LATENT_ROWS.items()}
LATENT_REPORTS = {layout: RUN / "report" / f"latents_{layout}.plan.txt" for layout in LATENT_ROWS}
LATENT_TABLES = [path for path in (CONFIG.latents.records, CONFIG.latents.events and CONFIG.events.table) if path]
for layout, shards in LATENT_ROWS.items():
    BRANCHES[f"latents_{layout}"] = {
        "manifests": [made[layout, shard] for made in (LATENTS_PLANNED, LATENTS_ENCODED, LATENTS_VERIFIED) for shard in shards],
        "built": LATENT_BUILT[layout],
        "release": LATENT_FOLDERS[layout],
        "plan": LATENT_REPORTS[layout],
        "told": LOGS / "write_latents_manifest" / f"{layout}.log",
        "table": LATENT_TABLES,
        "flags": " ".join(
            (
                as_flags(
                    {**latent_set_flags(layout), "stage": LATENT_PLACES[layout].stage, "plans": LATENT_PLANS[layout].stage, "folder": LATENT_FOLDERS[layout]}
                ),
                as_flags({"work_shards": CONFIG.latents.work_shards}),
                LATENT_SETTINGS[layout],
            )
        ),
        "max_quarantined": CONFIG.latents.max_quarantined,
    }


wildcard_constraints:
    layout="sections|whole",


rule plan_latents:
    input:
        tables=[ancient(path) for path in LATENT_TABLES],
        controls=lambda wildcards: LATENT_CONTROLS[wildcards.layout, wildcards.shard],
    output:
        manifest=latent_pattern("plan_latents", "latents_plans"),
    log:
        LOGS / "plan_latents" / "{layout}.{shard}.{key}.log",
    benchmark:
        LOGS / "plan_latents" / "{layout}.{shard}.{key}.tsv"
    conda:
        "../envs/latents.yaml"
    threads: CONFIG.latents.workers
    resources:
        mem_mb=lambda wildcards, attempt: attempt * (500 + 500 * CONFIG.latents.workers),
        runtime=lambda wildcards, attempt: attempt * 120,
    params:
        version=latent_stage.PLAN_VERSION,
        check=CHECK,
        settings=lambda wildcards: LATENT_SETTINGS[wildcards.layout],
        flags=lambda wildcards: as_flags(
            {
                **latent_set_flags(wildcards.layout),
                "stage": LATENT_PLANS[wildcards.layout].stage,
                "books": LATENT_BOOKS,
                "redo": CONFIG.redo.latents,
            }
        ),
    shell:
        step("plan_latents", verify=CONFIG.verify)
        + " --shard={wildcards.shard} --key={wildcards.key} {params.flags} --workers={threads} {params.settings} 2> {log:q}"


# What is dropped, ignored and refused, and what the rest costs, before anything is encoded: encoding waits for it.
rule write_latents_plan:
    input:
        planned=lambda wildcards: [LATENTS_PLANNED[wildcards.layout, shard] for shard in LATENT_ROWS[wildcards.layout]],
    output:
        text=RUN / "report" / "latents_{layout}.plan.txt",
    log:
        LOGS / "write_latents_plan" / "{layout}.log",
    benchmark:
        LOGS / "write_latents_plan" / "{layout}.tsv"
    conda:
        "../envs/latents.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 3000,
        runtime=30,
    params:
        version=1,
        settings=lambda wildcards: f"{LATENT_ENCODING[wildcards.layout]} {LATENT_REPORTED}",
        flags=lambda wildcards: as_flags({"plans": LATENT_PLANS[wildcards.layout].stage, "shards": LATENT_SHARDS[wildcards.layout], "weights": LATENT_WEIGHTS}),
    shell:
        step("write_latents_plan") + " {params.flags} {params.settings} --out={output.text:q} 2> {log:q}"


if LATENT_TINY:

    rule build_tiny_model:
        output:
            files=LATENT_MODELS,
        log:
            LOGS / "build_tiny_model.log",
        benchmark:
            LOGS / "build_tiny_model.tsv"
        conda:
            "../envs/latents.yaml"
        resources:
            mem_mb=lambda wildcards, attempt: attempt * 2000,
            runtime=10,
        params:
            version=latent_stage.MODEL_VERSION,
            settings=as_flags({"model": CONFIG.latents.model}),
            flags=as_flags({"out": TINY_MODEL}),
        shell:
            step("build_tiny_model") + " {params.settings} {params.flags} 2> {log:q}"


# One job: the encoder is large and loaded once, and it is gone before an autoencoder is loaded.
rule encode_text:
    input:
        planned=list(LATENTS_PLANNED.values()),
        reports=[ancient(path) for path in LATENT_REPORTS.values()],
        models=[ancient(path) for path in LATENT_MODELS],
    output:
        manifest=LATENTS_TEXT,
        marks=list(LATENT_PROMPTS.values()),
    log:
        LOGS / "encode_text.log",
    benchmark:
        LOGS / "encode_text.tsv"
    conda:
        "../envs/latents.yaml"
    threads: CONFIG.latents.threads
    resources:
        mem_mb=lambda wildcards, attempt: attempt * LATENT_TEXT_MB,
        runtime=lambda wildcards, attempt: attempt * 240,
        gpu=LATENT_GPU,
    params:
        version=latent_stage.TEXT_VERSION,
        check=CHECK,
        settings=as_flags({"text_dtype": CONFIG.latents.text_dtype}),
        flags=as_flags({**LATENT_MODEL_FLAGS, "model": CONFIG.latents.model, "redo": CONFIG.redo.latents}),
        key=LATENTS_TEXT.name.split(".")[1],
        # spans, not names: a command holds 128 KiB
        plans=" ".join(as_flags({"plans": LATENT_PLANS[layout].stage, "shards": shards}) for layout, shards in LATENT_SHARDS.items()),
    shell:
        step("encode_text", verify=CONFIG.verify, device=CONFIG.latents.device)
        + " --key={params.key} {params.flags} {params.settings} --threads={threads} {params.plans} 2> {log:q}"


rule encode_latents:
    input:
        manifest=lambda wildcards: LATENTS_PLANNED[wildcards.layout, wildcards.shard],
        text=lambda wildcards: ancient(LATENT_PROMPTS[wildcards.layout, wildcards.shard]),
        models=[ancient(path) for path in LATENT_MODELS],
    output:
        manifest=latent_pattern("encode_latents"),
    log:
        LOGS / "encode_latents" / "{layout}.{shard}.{key}.log",
    benchmark:
        LOGS / "encode_latents" / "{layout}.{shard}.{key}.tsv"
    conda:
        "../envs/latents.yaml"
    threads: CONFIG.latents.threads
    resources:
        mem_mb=lambda wildcards, attempt: attempt * LATENT_VAE_MB,
        runtime=lambda wildcards, attempt: attempt * 480,
        gpu=LATENT_GPU,
    params:
        version=latent_stage.ENCODE_VERSION,
        check=CHECK,
        settings=lambda wildcards: LATENT_ENCODING[wildcards.layout],
        flags=lambda wildcards: as_flags(
            {
                **latent_root_flags(wildcards.layout),
                **LATENT_MODEL_FLAGS,
                "stage": LATENT_PLACES[wildcards.layout].stage,
                "plans": LATENT_PLANS[wildcards.layout].stage,
                "folder": LATENT_FOLDERS[wildcards.layout],
                "redo": CONFIG.redo.latents,
            }
        ),
    shell:
        step("encode_latents", verify=CONFIG.verify, device=CONFIG.latents.device)
        + " --shard={wildcards.shard} --key={wildcards.key} {params.flags} --threads={threads} {params.settings} 2> {log:q}"


rule verify_latents:
    input:
        manifest=lambda wildcards: LATENTS_ENCODED[wildcards.layout, wildcards.shard],
    output:
        manifest=latent_pattern("verify_latents"),
    log:
        LOGS / "verify_latents" / "{layout}.{shard}.{key}.log",
    benchmark:
        LOGS / "verify_latents" / "{layout}.{shard}.{key}.tsv"
    conda:
        "../envs/latents.yaml"
    threads: CONFIG.latents.workers
    resources:
        mem_mb=lambda wildcards, attempt: attempt * (1000 + 1000 * CONFIG.latents.workers),
        runtime=lambda wildcards, attempt: attempt * 120,
    params:
        version=latent_stage.VERIFY_VERSION,
        check=CHECK,
        settings=lambda wildcards: as_flags({"level": CONFIG.latents.level, "model": CONFIG.latents.model, "layout": wildcards.layout}),
        flags=lambda wildcards: as_flags(
            {"stage": LATENT_PLACES[wildcards.layout].stage, "folder": LATENT_FOLDERS[wildcards.layout], "redo": CONFIG.redo.latents}
        ),
    shell:
        step("verify_latents", verify=CONFIG.verify)
        + " --shard={wildcards.shard} --key={wildcards.key} {params.flags} --workers={threads} {params.settings} 2> {log:q}"


for layout in LATENT_ROWS:

    # one rule a folder: its mark bears the key of what its files, whose names are fixed, were written for
    rule:
        name:
            f"write_latents_manifest_{layout}"
        input:
            manifests=BRANCHES[f"latents_{layout}"]["manifests"],
            # Both lead on to others by ancient() alone. When the file before such an edge is written anew, Snakemake looks at nothing behind it; through here it
            # finds what is missing there. What is only older it would not find: so a step takes away what was made of its manifest before it writes another.
            written=[LATENTS_TEXT, LATENT_REPORTS[layout]],
        output:
            built=LATENT_BUILT[layout],
        log:
            LOGS / "write_latents_manifest" / f"{layout}.log",
        benchmark:
            LOGS / "write_latents_manifest" / f"{layout}.tsv"
        conda:
            "../envs/latents.yaml"
        resources:
            mem_mb=lambda wildcards, attempt: attempt * 3000,
            runtime=30,
        params:
            version=latent_stage.MANIFEST_VERSION,
            settings=f"{LATENT_ENCODING[layout]} {LATENT_REPORTED} {as_flags({'start': CONFIG.latents.start})}",
            flags=as_flags(
                {
                    **LATENT_MODEL_FLAGS,
                    "stage": LATENT_PLACES[layout].stage,
                    "plans": LATENT_PLANS[layout].stage,
                    "folder": LATENT_FOLDERS[layout],
                    "key": LATENT_KEYS[layout],
                    "shards": LATENT_SHARDS[layout],
                }
            ),
        shell:
            step("write_latents_manifest") + " {params.flags} {params.settings} 2> {log:q}"
