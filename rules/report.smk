"""What passed, what did not and why; and the gate that each branch ends in."""


rule write_report:
    input:
        manifests=lambda wildcards: BRANCHES[wildcards.branch]["manifests"],
        table=lambda wildcards: ancient(BRANCHES[wildcards.branch]["table"]),
    output:
        json=report_of("{branch}"),
        text=RUN / "report" / "{branch}.txt",
    log:
        LOGS / "write_report" / "{branch}.log",
    benchmark:
        LOGS / "write_report" / "{branch}.tsv"
    conda:
        "../envs/events.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 1000,
        runtime=30,
    params:
        version=1,
        flags=lambda wildcards: BRANCHES[wildcards.branch]["flags"],
    shell:
        step("write_report") + " --branch={wildcards.branch:q} {params.flags} --json={output.json:q} --text={output.text:q} 2> {log:q}"


rule gate:
    input:
        report=report_of("{branch}"),
        # by name too: of files that only lead to others Snakemake would not miss one
        manifests=lambda wildcards: BRANCHES[wildcards.branch]["manifests"],
        built=lambda wildcards: BRANCHES[wildcards.branch]["built"],
        table=lambda wildcards: ancient(BRANCHES[wildcards.branch]["table"]),
    output:
        passed=RUN / "report" / "{branch}.{key}.passed",
    log:
        LOGS / "gate" / "{branch}.{key}.log",
    benchmark:
        LOGS / "gate" / "{branch}.{key}.tsv"
    conda:
        "../envs/events.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 1000,
        runtime=30,
    params:
        version=1,
        flags=lambda wildcards: BRANCHES[wildcards.branch]["flags"],
        gate_flags=lambda wildcards: as_flags({"max_quarantined": allowed_in(wildcards.branch), "prune": CONFIG.prune}),
    shell:
        step("gate") + " --branch={wildcards.branch:q} --report={input.report:q} {params.flags} {params.gate_flags} --passed={output.passed:q} 2> {log:q}"
