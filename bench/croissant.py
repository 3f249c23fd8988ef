"""The description of the phantom in the Croissant format (docs/phantom.croissant.json).

    python bench/croissant.py

Run it in the root of the repository, after the default profile's stage `source`. It needs no
package: `mlcroissant validate --jsonld docs/phantom.croissant.json` checks what it writes.
"""

from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.contexts import CONTEXTS
from pacer.core.io import hash_file, read_json, write_json
from pacer.core.schemas import TRUTH_SCHEMA

SOURCE, OUT = Path("data/source"), Path("docs/phantom.croissant.json")
TYPES: dict[Any, str] = {pl.String(): "sc:Text", pl.Boolean(): "sc:Boolean"}
#: Fields of an annotation that hold one text each.
TEXTS = ("id", "finding", "impression", "APPA_imagepath")
FORMATS = {".json": "application/json", ".parquet": "application/x-parquet"}
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def file_object(name: str, description: str) -> dict[str, Any]:
    path = SOURCE / name
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "description": description,
        "contentUrl": f"../{path}",
        "encodingFormat": FORMATS[path.suffix],
        "sha256": hash_file(path),
    }


def field(record_set: str, name: str, file: str, kind: str, extract: dict[str, str]) -> dict:
    return {
        "@type": "cr:Field",
        "@id": f"{record_set}/{name}",
        "dataType": kind,
        "source": {"fileObject": {"@id": file}, "extract": extract},
    }


def main() -> None:
    counts = read_json(SOURCE / "manifest.json")["counts"]
    files = [file_object(f"{c}.json", f"annotations of the context {c}") for c in CONTEXTS]
    files.append(file_object("truth.parquet", "the true findings of each study"))
    studies = [
        field("studies", name.replace(" ", "_"), "truth.parquet", TYPES[kind], {"column": name})
        for name, kind in TRUTH_SCHEMA.items()
        if kind in TYPES
    ]
    sets = [{"@type": "cr:RecordSet", "@id": "studies", "field": studies}]
    # mlcroissant reads all fields of a file together: splits of different length cannot be sets
    for context in CONTEXTS:
        fields = [
            field(context, name, f"{context}.json", "sc:Text", {"jsonPath": f"$.*[*].{name}"})
            for name in TEXTS
        ]
        sets.append({"@type": "cr:RecordSet", "@id": context, "field": fields})
    card = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": "phantom",
        "description": (
            f"A generated corpus of chest X-ray examinations in MIMIC-RG4's layout: "
            f"{counts['patients']:,} patients, {counts['studies']:,} studies, "
            f"{counts['images']:,} images, with the true findings of each study. Images are "
            "drawings, and reports are composed of templates: for tests of software, not for "
            "radiology. docs/phantom.md is its data card."
        ),
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "license": "https://spdx.org/licenses/Apache-2.0.html",
        "version": "0.4.0",
        "datePublished": "2026-11-29",
        "citeAs": "The PACER developers. PACER, version 0.4.0, 2026: its generated corpus.",
        "isLiveDataset": False,
        "distribution": files,
        "recordSet": sets,
    }
    write_json(OUT, card)


if __name__ == "__main__":
    main()
