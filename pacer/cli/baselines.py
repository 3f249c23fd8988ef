"""``pacer baseline``: models that others have published; imports wait for the command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacer.cli.terminal import RecordsFile, console

baseline = typer.Typer(no_args_is_help=True, help="Run models that others have published.")


@baseline.callback()
def _keep_the_name_of_a_single_command() -> None:
    pass


@baseline.command()
def chexone(
    records: RecordsFile,
    images: Annotated[Path, typer.Option(help="images.parquet of the corpus.")],
    model: Annotated[Path, typer.Option(help="Folder of the released weights, in Hugging Face format.")],
    out: Annotated[Path, typer.Option(help="Folder for generated.jsonl and manifest.json; replaced.")],
    split: Annotated[str, typer.Option(help="Split to answer for.")] = "test",
    context: Annotated[str, typer.Option(help="Context of the records; the frontal image is shown.")] = "sn",
    limit: Annotated[int | None, typer.Option(help="Records at most.")] = None,
    max_new_tokens: Annotated[int, typer.Option(help="Tokens of an answer at most.")] = 1024,
    max_pixels: Annotated[int, typer.Option(help="Pixels of an image after resizing.")] = 512 * 512,
    batch_size: Annotated[int, typer.Option(help="Images at a time.")] = 4,
) -> None:
    """Write CheXOne's answers to the published prompt, one beam; scoring takes the findings from the last box."""
    from pacer.baselines.chexone import OUTPUTS, CheXOneSettings, run_chexone
    from pacer.core.io import check_replaceable
    from pacer.records.schemas import read_images, read_records

    check_replaceable(out, OUTPUTS)
    settings = CheXOneSettings(max_new_tokens=max_new_tokens, max_pixels=max_pixels, batch_size=batch_size)
    found = run_chexone(
        read_records(records), read_images(images), model, out, settings, split=split, context=context, limit=limit
    )
    console.print(
        f"{found['records']} answers written to {out}, {found['not_ended']} of them cut at {max_new_tokens} tokens"
    )
