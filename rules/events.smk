"""Raw videos -> event voxels (HDF5), validated."""

from eventvox import stage as event_stage
from shardwork.shards import split_rows

EVENTS = event_stage.events_place(RUN / "events")
EVENT_SHARDS = split_rows(checked(event_stage.read_video_table, Path(CONFIG.events.table)), event_stage.KEY, CONFIG.events.work_shards)
EVENT_SETTINGS = as_flags(CONFIG.events.settings())
EVENT_VOXELIZED = {
    shard: EVENTS.manifest(
        "voxelize_events",
        shard,
        key_of(event_stage.VOXELIZE_VERSION, EVENT_SETTINGS, CONFIG.redo.events, rows_digest(rows, event_stage.COLUMNS)),
    )
    for shard, rows in EVENT_SHARDS.items()
}
EVENT_VALIDATED = {shard: EVENTS.manifest("validate_events", shard, key_of(event_stage.VALIDATE_VERSION, made.name)) for shard, made in EVENT_VOXELIZED.items()}
BRANCHES["events"] = {
    "manifests": [*EVENT_VOXELIZED.values(), *EVENT_VALIDATED.values()],
    "table": CONFIG.events.table,
    "flags": as_flags({"table": CONFIG.events.table, "stage": EVENTS.stage, "work_shards": CONFIG.events.work_shards}),
}


rule voxelize_events:
    input:
        table=ancient(CONFIG.events.table),
    output:
        manifest=EVENTS.manifest("voxelize_events", "{shard}", "{key}"),
    log:
        LOGS / "voxelize_events" / "{shard}.{key}.log",
    benchmark:
        LOGS / "voxelize_events" / "{shard}.{key}.tsv"
    conda:
        "../envs/events.yaml"
    threads: CONFIG.events.workers
    resources:
        mem_mb=lambda wildcards, attempt: attempt * (1000 + 1000 * CONFIG.events.workers),
        runtime=lambda wildcards, attempt: attempt * 240,
    params:
        version=event_stage.VOXELIZE_VERSION,
        check=CHECK,
        settings=EVENT_SETTINGS,
        flags=as_flags({"table": CONFIG.events.table, "stage": EVENTS.stage, "redo": CONFIG.redo.events}),
    shell:
        step("voxelize_events", verify=CONFIG.verify)
        + " --shard={wildcards.shard} --key={wildcards.key} {params.flags} --workers={threads} {params.settings} 2> {log:q}"


rule validate_events:
    input:
        manifest=lambda wildcards: EVENT_VOXELIZED[wildcards.shard],
    output:
        manifest=EVENTS.manifest("validate_events", "{shard}", "{key}"),
    log:
        LOGS / "validate_events" / "{shard}.{key}.log",
    benchmark:
        LOGS / "validate_events" / "{shard}.{key}.tsv"
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
        flags=as_flags({"stage": EVENTS.stage, "redo": CONFIG.redo.events}),
    shell:
        step("validate_events", verify=CONFIG.verify)
        + " --shard={wildcards.shard} --key={wildcards.key} {params.flags} --workers={threads} {params.settings} 2> {log:q}"
