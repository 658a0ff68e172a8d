"""The sandbox's only exception, which becomes a `Status` of failure, and constructors for the common ones."""

from typing import Any

from podwright.sandbox.kinds import Kind, Obj


class StatusError(Exception):
    """The sandbox answers the request with a Status object and this HTTP code."""

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code, self.reason, self.details = code, reason, details

    def status(self) -> Obj:
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": str(self)}
        return body | {"reason": self.reason, "details": self.details, "code": self.code}


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unsupported_media(message: str) -> StatusError:
    return StatusError(415, "UnsupportedMediaType", message)


def not_found(kind: Kind, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{kind.resource} "{name}" not found', **kind.details(name))


def conflict(kind: Kind, name: str, why: str, subresource: str = "") -> StatusError:
    message = f'Operation cannot be fulfilled on {kind.resource}{subresource} "{name}": {why}'
    return StatusError(409, "Conflict", message, **kind.details(name))


def invalid(kind: Kind, name: str, *problems: tuple[str, str]) -> StatusError:
    """`problems` are pairs of a field path and a message, which starts with its type, for example "Required value"."""
    texts = [f"{path}: {message}" for path, message in problems]
    causes = [{"reason": _reason(message), "message": message, "field": path} for path, message in problems]
    named = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f'{named} "{name}" is invalid: {joined}'
    return StatusError(422, "Invalid", message, **kind.details(name) | {"kind": kind.kind, "causes": causes})


def _reason(message: str) -> str:
    known = {"Required": "Required", "Forbidden:": "Forbidden", "Unsupported": "NotSupported"}
    return f"FieldValue{known.get(message.split(maxsplit=1)[0], 'Invalid')}"
