"""Raw videos -> event voxels (HDF5), validated -> a release: manifests, scales, tar shards, checksums."""

from eventvox import stage as event_stage
from eventvox.manifest_settings import ManifestSettings

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
CONTROLS = event_stage.controls_place(RUN / "controls" / "events", EVENTS)
EVENT_CONTROLS = {
    shard: CONTROLS.manifest(event_stage.CONTROLS_STEP, shard, key_of(event_stage.CONTROLS_VERSION, validated.name))
    for shard, validated in EVENT_VALIDATED.items()
    if CONFIG.events.controls
}
EVENT_MANIFESTS = [*EVENT_VOXELIZED.values(), *EVENT_VALIDATED.values()]
EVENTS_RELEASE = RUN / "events_release"
EVENT_RELEASE_SETTINGS = CONFIG.events.release.settings()
checked(lambda: ManifestSettings(**EVENT_RELEASE_SETTINGS))
# Files of a release bear fixed names, so this mark stands for its key: without Snakemake's own records too, a change asks for another file.
EVENT_RELEASE_KEY = key_of(
    [event_stage.MANIFEST_VERSION, event_stage.PACK_VERSION, event_stage.CHECKSUM_VERSION],
    CONFIG.events.release.model_dump(),
    rows_digest([row for rows in EVENT_SHARDS.values() for row in rows], event_stage.MANIFEST_COLUMNS),
    [path.name for path in EVENT_VALIDATED.values()],
)
EVENT_RELEASE_MARK = event_stage.release_mark(EVENTS, EVENT_RELEASE_KEY)
EVENT_SHARD_LISTS = [event_stage.shards_of(EVENTS_RELEASE, split) for split in event_stage.SPLITS]
EVENT_FLAGS = {"table": CONFIG.events.table, "stage": EVENTS.stage, "work_shards": CONFIG.events.work_shards}
BRANCHES["events"] = {
    "manifests": [*EVENT_MANIFESTS, *EVENT_CONTROLS.values()],
    "built": [
        EVENT_RELEASE_MARK,
        event_stage.description_of(EVENTS_RELEASE),
        *EVENT_SHARD_LISTS,
        event_stage.checksums_of(EVENTS_RELEASE),
    ],
    "release": EVENTS_RELEASE,
    "table": CONFIG.events.table,
    "flags": as_flags({**EVENT_FLAGS, "controls": CONFIG.events.controls, "controls_stage": CONTROLS.stage}),
}


localrules:
    checksum_events,
    write_event_manifest,


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


if CONFIG.events.controls:

    rule render_event_controls:
        input:
            made=lambda wildcards: EVENT_VOXELIZED[wildcards.shard],
            validated=lambda wildcards: EVENT_VALIDATED[wildcards.shard],
        output:
            manifest=CONTROLS.manifest(event_stage.CONTROLS_STEP, "{shard}", "{key}"),
        log:
            LOGS / "render_event_controls" / "{shard}.{key}.log",
        benchmark:
            LOGS / "render_event_controls" / "{shard}.{key}.tsv"
        conda:
            "../envs/events.yaml"
        threads: CONFIG.events.workers
        resources:
            mem_mb=lambda wildcards, attempt: attempt * (500 + 500 * CONFIG.events.workers),
            runtime=lambda wildcards, attempt: attempt * 240,
        params:
            version=event_stage.CONTROLS_VERSION,
            check=CHECK,
            flags=as_flags({"events": EVENTS.stage, "stage": CONTROLS.stage, "redo": CONFIG.redo.events}),
        shell:
            step("render_event_controls", verify=CONFIG.verify)
            + " --shard={wildcards.shard} --key={wildcards.key} {params.flags} --workers={threads} 2> {log:q}"


rule write_event_manifest:
    input:
        manifests=EVENT_MANIFESTS,
        table=ancient(CONFIG.events.table),
    output:
        description=event_stage.description_of(EVENTS_RELEASE),
        mark=EVENT_RELEASE_MARK,
    log:
        LOGS / "write_event_manifest.log",
    benchmark:
        LOGS / "write_event_manifest.tsv"
    conda:
        "../envs/events.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 2000,
        runtime=30,
    params:
        version=event_stage.MANIFEST_VERSION,
        settings=as_flags({**EVENT_RELEASE_SETTINGS, **CONFIG.events.settings()}),
        flags=as_flags(EVENT_FLAGS),
        release=as_flags({"release": EVENTS_RELEASE}),
    shell:
        step("write_event_manifest", key=EVENT_RELEASE_KEY) + " {params.flags} {params.release} {params.settings} 2> {log:q}"


# One job a split, with workers: shards are cut from all passing ids, so that the rule and the command line give the same bytes.
rule pack_events:
    input:
        description=event_stage.description_of(EVENTS_RELEASE),
        mark=EVENT_RELEASE_MARK,
    output:
        shards=event_stage.shards_of(EVENTS_RELEASE, "{split}"),
    log:
        LOGS / "pack_events" / "{split}.log",
    benchmark:
        LOGS / "pack_events" / "{split}.tsv"
    conda:
        "../envs/events.yaml"
    threads: CONFIG.events.workers
    resources:
        mem_mb=lambda wildcards, attempt: attempt * (500 + 100 * CONFIG.events.workers),
        runtime=lambda wildcards, attempt: attempt * 240,
    params:
        version=event_stage.PACK_VERSION,
        check=CHECK,
        settings=as_flags({"members_per_shard": CONFIG.events.release.members_per_shard}),
        flags=as_flags({"release": EVENTS_RELEASE, "stage": EVENTS.stage}),
    shell:
        step("pack_events", verify=CONFIG.verify) + " --split={wildcards.split:q} {params.flags} --workers={threads} {params.settings} --replan 2> {log:q}"


rule checksum_events:
    input:
        shards=EVENT_SHARD_LISTS,
    output:
        checksums=event_stage.checksums_of(EVENTS_RELEASE),
    log:
        LOGS / "checksum_events.log",
    benchmark:
        LOGS / "checksum_events.tsv"
    conda:
        "../envs/events.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 1000,
        runtime=30,
    params:
        version=event_stage.CHECKSUM_VERSION,
        flags=as_flags({"release": EVENTS_RELEASE}),
    shell:
        step("checksum_events") + " {params.flags} 2> {log:q}"
