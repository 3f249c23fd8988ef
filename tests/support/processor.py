"""The processor's optional instructions (AVX2, AVX-512), switched off for another process.

``python -m tests.support.processor`` prints the settings for a shell; nothing where the processor
has none of those that numpy chooses from.
"""

from numpy._core import _multiarray_umath as built


def without_features() -> dict[str, str]:
    """Return the environment variables that hold numpy and torch to the instructions that every
    processor of this architecture has; empty where this one has no others."""
    if not any(built.__cpu_features__[name] for name in built.__cpu_dispatch__):
        return {}
    names = " ".join(built.__cpu_dispatch__)
    return {"NPY_DISABLE_CPU_FEATURES": names, "ATEN_CPU_CAPABILITY": "default"}


if __name__ == "__main__":
    for name, value in without_features().items():
        print(f"export {name}='{value}'")
