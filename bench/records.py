"""Records of benchmarks for the repository: reads rows from JSON lines, and makes facts by name and tables."""
import collections, gzip, json, os, platform, subprocess, time


def read(files):
    """Read rows by kind, from pieces (JSON lines) and kept records (`result.json`, compressed or not)."""
    rows = collections.defaultdict(list)
    for name in files:
        with (gzip.open if name.endswith(".gz") else open)(name, "rt") as file:
            if name.removesuffix(".gz").endswith(".json"):
                record = json.load(file)
                for kind, kept in record.items():
                    if isinstance(kept, dict) and "columns" in kept:
                        rows[kind] += [dict(zip(kept["columns"], row)) for row in kept["rows"]]
                for kind, kept in record.get("rows", {}).items():
                    rows[kind] += kept
                continue
            for line in file:
                row = json.loads(line)
                rows[row["kind"]].append(row)
    return rows


def percent(share, digits=1):
    return "unknown" if share is None else f"{100 * share:.{digits}f} %"


def table(head, lines):
    """Make a Markdown table. The first column has words, the others have numbers."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in [head, rule, *lines])


def facts(rows, parts):
    """Return all facts that a document may quote, by name, from each of `parts`."""
    found = {}
    for part in parts:
        found.update(part(rows))
    # A table is on its own lines in a document.
    return {name: f"\n\n{value}\n\n" if "\n" in str(value) else str(value) for name, value in found.items()}


def machine():
    with open("/proc/cpuinfo") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} CPUs"


def first_line(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[0].strip()


def write(folder, schema, title, corun, found, kept, pieces, about, **more):
    """Write a folder for `scripts/keep-record`. `kept` are the rows for the file; `more` describes the machine further."""
    os.makedirs(folder, exist_ok=True)
    version = first_line(corun, "--version")
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    where = {"machine": machine(), "kernel": platform.release(), **more}
    result = {"schema": schema, "date": date, **where, "corun": version, "facts": found, **kept}
    with open(f"{folder}/result.json", "w") as file:
        json.dump(result, file, separators=(",", ":"))
    tables = "".join(f"\n## {name}\n\n{value.strip()}\n" for name, value in found.items() if "\n" in value)
    numbers = "".join(f"- {name}: {value}\n" for name, value in found.items() if "\n" not in value)
    made_on = "\n".join(f"| {name} | {value} |" for name, value in where.items())
    made_by = "\n".join(pieces)
    with open(f"{folder}/README.md", "w") as file:
        file.write(f"""# {title}

Made {date} by {version} with pieces of

```
{made_by}
```

| | |
| --- | --- |
{made_on}

{about}

{numbers}{tables}""")
