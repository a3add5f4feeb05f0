"""Panoramas and photos -> frozen pools of backgrounds."""

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
