"""Messages for the problems that pydantic finds."""

from typing import Any

from pydantic import ValidationError


def explain(error: ValidationError, whole: str = "", *, of_parameters: bool = False) -> str:
    """Describe each problem: the key, and what is allowed.

    Args:
        whole: name of the validated value, for problems that concern no single key.
        of_parameters: the value comes from a parameter file, so the message quotes what it
            contains. Other values may be report text.
    """
    problems = error.errors(include_url=False)
    return "; ".join(_explain(problem, whole, of_parameters) for problem in problems)


def _explain(problem: Any, whole: str, of_parameters: bool) -> str:
    key = ".".join(map(str, problem["loc"])) or whole
    value = problem["input"]
    if problem["type"] == "missing":
        return f"{key} is missing"
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key}"
    if of_parameters and problem["type"] == "model_type":
        return f"{key} = {value!r:.200} must be a group of keys, as in configs/phantom.yaml"
    reason = reason_of(problem).replace("Input should", "must")
    if of_parameters and not isinstance(value, dict):
        return f"{key} = {value!r:.200}: {reason}" if key else reason
    return f"{key}: {reason}" if key else reason


def reason_of(problem: Any) -> str:
    """Return pydantic's description of the allowed values, which does not quote the value."""
    return problem["msg"].removeprefix("Value error, ")
