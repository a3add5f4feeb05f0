"""Raw videos -> event voxels (HDF5), validated."""

from eventvox import stage as event_stage
from shardwork.shards import split_rows

EVENTS = event_stage.events_place(RUN / "events")
EVENT_SHARDS = split_rows(checked(event_stage.read_video_table, Path(CONFIG.events.table)), event_stage.KEY, CONFIG.events.work_shards)
EVENT_RUN_FLAGS = as_flags({"stage": EVENTS.stage, "redo": CONFIG.redo.events})


BRANCHES["events"] = {
    "manifests": [EVENTS.manifest(rule, shard) for rule in event_stage.STEPS for shard in EVENT_SHARDS],
    "table": CONFIG.events.table,
    "flags": as_flags({"table": CONFIG.events.table, "stage": EVENTS.stage, "work_shards": CONFIG.events.work_shards}),
}


rule voxelize_events:
    input:
        table=ancient(CONFIG.events.table),
    output:
        manifest=EVENTS.manifest("voxelize_events", "{shard}"),
    log:
        LOGS / "voxelize_events" / "{shard}.log",
    benchmark:
        LOGS / "voxelize_events" / "{shard}.tsv"
    conda:
        "../envs/events.yaml"
    threads: CONFIG.events.workers
    resources:
        mem_mb=lambda wildcards, attempt: attempt * (1000 + 1000 * CONFIG.events.workers),
        runtime=lambda wildcards, attempt: attempt * 240,
    params:
        version=event_stage.VOXELIZE_VERSION,
        check=CHECK,
        rows=lambda wildcards: rows_digest(EVENT_SHARDS[wildcards.shard], event_stage.COLUMNS),
        settings=as_flags(CONFIG.events.settings()),
        flags=as_flags({"table": CONFIG.events.table}) + " " + EVENT_RUN_FLAGS,
    shell:
        step("voxelize_events", verify=CONFIG.verify) + " --shard={wildcards.shard} {params.flags} --workers={threads} {params.settings} 2> {log:q}"


rule validate_events:
    input:
        manifest=EVENTS.manifest("voxelize_events", "{shard}"),
    output:
        manifest=EVENTS.manifest("validate_events", "{shard}"),
    log:
        LOGS / "validate_events" / "{shard}.log",
    benchmark:
        LOGS / "validate_events" / "{shard}.tsv"
    conda:
        "../envs/events.yaml"
    threads: CONFIG.events.workers
    resources:
        mem_mb=lambda wildcards, attempt: attempt * (500 + 500 * CONFIG.events.workers),
        runtime=lambda wildcards, attempt: attempt * 120,
    params:
        version=event_stage.VALIDATE_VERSION,
        check=CHECK,
        settings=as_flags({"frames_per_bin": CONFIG.events.frames_per_bin}),
        flags=EVENT_RUN_FLAGS,
    shell:
        step("validate_events", verify=CONFIG.verify) + " --shard={wildcards.shard} {params.flags} --workers={threads} {params.settings} 2> {log:q}"
