"""Panoramas and photos -> frozen pools of backgrounds."""

from sam3dvid import stage as clip_stage


def pool_branch(kind, section, rows, version):
    """Fill in the branch of a pool that is built from a table; return its manifest, key, settings, and flags of its step.

    One job: a pool is frozen as a whole. How many pictures may be refused is no part of the key: two configurations that share a pool would take turns.
    """
    place = clip_stage.pool_place(kind, clip_stage.books_of(Path(section.pool)), Path(section.pool))
    settings = as_flags(section.settings())
    key = key_of(version, settings, section.pool, rows_digest(rows, clip_stage.POOL_COLUMNS[kind]))
    manifest = place.manifest(f"build_{kind}_pool", clip_stage.ONE_SHARD, key)
    BRANCHES[kind] = {
        "manifests": [manifest],
        "built": [RUN / "report" / f"{kind}.png"],
        "release": section.pool,
        "there": Path(section.pool) / clip_stage.SELECTION,
        "table": section.table,
        "flags": as_flags({"table": section.table, "stage": place.stage, "pool": section.pool, "salt": section.salt, "limit": getattr(section, "limit", 0)}),
    }
    flags = as_flags({"table": section.table, "pool": section.pool, "stage": place.stage})
    return manifest, key, settings, flags


def pool_rows(kind, table):
    return checked(clip_stage.read_pool_table, kind, Path(table))


if CONFIG.backgrounds.polyhaven and not CONFIG.backgrounds.polyhaven.table:
    checked(clip_stage.check_pool, Path(CONFIG.backgrounds.polyhaven.pool))

if CONFIG.backgrounds.polyhaven and CONFIG.backgrounds.polyhaven.table:
    POLYHAVEN = CONFIG.backgrounds.polyhaven
    PANORAMAS = clip_stage.first_panoramas(pool_rows("polyhaven", POLYHAVEN.table), POLYHAVEN.salt, POLYHAVEN.limit)
    POLYHAVEN_MANIFEST, POLYHAVEN_KEY, POLYHAVEN_SETTINGS, POLYHAVEN_FLAGS = pool_branch("polyhaven", POLYHAVEN, PANORAMAS, clip_stage.POLYHAVEN_VERSION)

    rule build_polyhaven_pool:
        input:
            table=ancient(POLYHAVEN.table),
        output:
            manifest=POLYHAVEN_MANIFEST,
            sheet=RUN / "report" / "polyhaven.png",
        log:
            LOGS / "build_polyhaven_pool.log",
        benchmark:
            LOGS / "build_polyhaven_pool.tsv"
        conda:
            "../envs/clips.yaml"
        threads: POLYHAVEN.workers
        resources:
            mem_mb=lambda wildcards, attempt: attempt * (500 + 1500 * POLYHAVEN.workers),
            runtime=lambda wildcards, attempt: attempt * 120,
        params:
            version=clip_stage.POLYHAVEN_VERSION,
            check=CHECK,
            settings=POLYHAVEN_SETTINGS,
            flags=POLYHAVEN_FLAGS,
        shell:
            step("build_polyhaven_pool", verify=CONFIG.verify, key=POLYHAVEN_KEY, max_refused=CONFIG.max_quarantined)
            + " {params.flags} --workers={threads} {params.settings} --sheet={output.sheet:q} 2> {log:q}"


if CONFIG.backgrounds.sa1b:
    SA1B = CONFIG.backgrounds.sa1b
    SA1B_MANIFEST, SA1B_KEY, SA1B_SETTINGS, SA1B_FLAGS = pool_branch("sa1b", SA1B, pool_rows("sa1b", SA1B.table), clip_stage.SA1B_VERSION)

    rule build_sa1b_pool:
        input:
            table=ancient(SA1B.table),
        output:
            manifest=SA1B_MANIFEST,
            sheet=RUN / "report" / "sa1b.png",
        log:
            LOGS / "build_sa1b_pool.log",
        benchmark:
            LOGS / "build_sa1b_pool.tsv"
        conda:
            "../envs/clips.yaml"
        threads: SA1B.workers
        resources:
            mem_mb=lambda wildcards, attempt: attempt * (500 + 1500 * SA1B.workers),
            runtime=lambda wildcards, attempt: attempt * 240,
        params:
            version=clip_stage.SA1B_VERSION,
            check=CHECK,
            settings=SA1B_SETTINGS,
            flags=SA1B_FLAGS,
        shell:
            step("build_sa1b_pool", verify=CONFIG.verify, key=SA1B_KEY, max_refused=CONFIG.max_quarantined)
            + " {params.flags} --workers={threads} {params.settings} --sheet={output.sheet:q} 2> {log:q}"
