"""3D assets -> normalised meshes -> voxels; what they look like, and their licences."""

from sam3dvid.assets.filters import AssetFilter, check_licenses, select

ASSETS_TABLE = Path(CONFIG.assets.table)
ASSETS_FILTER = CONFIG.assets.filter.settings()
ASSET_ROWS, _ = select(checked(clip_stage.read_asset_table, ASSETS_TABLE), AssetFilter(**ASSETS_FILTER))
checked(some_rows, ASSET_ROWS, ASSETS_TABLE)
checked(check_licenses, CONFIG.assets.release_licenses)
NORMALIZED = clip_stage.normalized_place(RUN / "assets")
ASSETS = clip_stage.assets_place(RUN / "voxels", RUN / "dataset")
ASSET_SHARDS = split_rows(ASSET_ROWS, clip_stage.ASSET_KEY, CONFIG.assets.work_shards)
ASSET_SETTINGS = as_flags(CONFIG.assets.settings())
ASSETS_NORMALIZED = {
    shard: NORMALIZED.manifest(
        "normalize_assets",
        shard,
        key_of(clip_stage.NORMALIZE_VERSION, ASSET_SETTINGS, CONFIG.redo.assets, rows_digest(rows, clip_stage.MESH_COLUMNS)),
    )
    for shard, rows in ASSET_SHARDS.items()
}
ASSETS_VOXELIZED = {
    shard: ASSETS.manifest(
        "voxelize_assets",
        shard,
        key_of(clip_stage.VOXELIZE_VERSION, ASSETS_NORMALIZED[shard].name, rows_digest(rows, (*clip_stage.ASSET_COLUMNS, *clip_stage.ASSET_NOTES))),
    )
    for shard, rows in ASSET_SHARDS.items()
}
ASSET_FLAGS = {"table": ASSETS_TABLE, "work_shards": CONFIG.assets.work_shards, **ASSETS_FILTER}
ASSET_SHEET, ASSET_LICENSES = RUN / "report" / "assets.png", RUN / "report" / "asset_licenses.csv"
BRANCHES["assets"] = {
    "manifests": [*ASSETS_NORMALIZED.values(), *ASSETS_VOXELIZED.values()],
    "built": [ASSET_SHEET, ASSET_LICENSES],
    "release": RUN / "dataset",
    "told": LOGS / "write_asset_audit.log",
    "table": CONFIG.assets.table,
    "flags": as_flags({**ASSET_FLAGS, "stage": NORMALIZED.stage, "voxels": ASSETS.stage, "dataset": RUN / "dataset"}),
    "max_quarantined": CONFIG.assets.max_quarantined,
}


rule normalize_assets:
    input:
        table=ancient(CONFIG.assets.table),
    output:
        manifest=NORMALIZED.manifest("normalize_assets", "{shard}", "{key}"),
    log:
        LOGS / "normalize_assets" / "{shard}.{key}.log",
    benchmark:
        LOGS / "normalize_assets" / "{shard}.{key}.tsv"
    conda:
        "../envs/blender.yaml"
    threads: CONFIG.assets.workers
    resources:
        mem_mb=lambda wildcards, attempt: attempt * (1000 + 3000 * CONFIG.assets.workers),
        runtime=lambda wildcards, attempt: attempt * 240,
    params:
        version=clip_stage.NORMALIZE_VERSION,
        check=CHECK,
        settings=ASSET_SETTINGS,
        flags=as_flags({"table": ASSETS_TABLE, **ASSETS_FILTER, "stage": NORMALIZED.stage, "redo": CONFIG.redo.assets}),
    shell:
        step("normalize_assets", verify=CONFIG.verify)
        + " --shard={wildcards.shard} --key={wildcards.key} {params.flags} --workers={threads} {params.settings} 2> {log:q}"


rule voxelize_assets:
    input:
        manifest=lambda wildcards: ASSETS_NORMALIZED[wildcards.shard],
        table=ancient(CONFIG.assets.table),
    output:
        manifest=ASSETS.manifest("voxelize_assets", "{shard}", "{key}"),
    log:
        LOGS / "voxelize_assets" / "{shard}.{key}.log",
    benchmark:
        LOGS / "voxelize_assets" / "{shard}.{key}.tsv"
    conda:
        "../envs/clips.yaml"
    threads: CONFIG.assets.workers
    resources:
        mem_mb=lambda wildcards, attempt: attempt * (1000 + 1000 * CONFIG.assets.workers),
        runtime=lambda wildcards, attempt: attempt * 60,
    params:
        version=clip_stage.VOXELIZE_VERSION,
        check=CHECK,
        flags=as_flags(
            {
                "table": ASSETS_TABLE,
                "normalized": NORMALIZED.stage,
                "stage": ASSETS.stage,
                "dataset": RUN / "dataset",
                "redo": CONFIG.redo.assets,
            }
        ),
    shell:
        step("voxelize_assets", verify=CONFIG.verify) + " --shard={wildcards.shard} --key={wildcards.key} {params.flags} --workers={threads} 2> {log:q}"


rule render_asset_sheet:
    input:
        manifests=list(ASSETS_VOXELIZED.values()),
    output:
        sheet=ASSET_SHEET,
    log:
        LOGS / "render_asset_sheet.log",
    benchmark:
        LOGS / "render_asset_sheet.tsv"
    conda:
        "../envs/blender.yaml"
    threads: CONFIG.assets.workers
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 4000,
        runtime=60,
    params:
        version=1,
        flags=as_flags({**ASSET_FLAGS, "stage": ASSETS.stage, "dataset": RUN / "dataset"}),
    shell:
        step("render_asset_sheet") + " {params.flags} --threads={threads} --out={output.sheet:q} 2> {log:q}"


rule write_asset_audit:
    input:
        manifests=list(ASSETS_VOXELIZED.values()),
        table=ancient(CONFIG.assets.table),
    output:
        csv=ASSET_LICENSES,
        text=RUN / "report" / "ATTRIBUTION.md",
    log:
        LOGS / "write_asset_audit.log",
    benchmark:
        LOGS / "write_asset_audit.tsv"
    conda:
        "../envs/clips.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 1000,
        runtime=30,
    params:
        version=clip_stage.AUDIT_VERSION,
        settings=as_flags({"allow": CONFIG.assets.release_licenses}),
        flags=as_flags({**ASSET_FLAGS, "stage": ASSETS.stage}),
    shell:
        step("write_asset_audit") + " {params.flags} {params.settings} --csv={output.csv:q} --text={output.text:q} 2> {log:q}"
