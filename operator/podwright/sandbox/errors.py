"""The one exception of the sandbox: an API `Status` that is a failure, and how each common one is worded."""

from typing import Any

from podwright.sandbox.kinds import Kind, Obj


class ApiError(Exception):
    """Answered as a Status object with this HTTP code."""

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details

    def status(self) -> Obj:
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": str(self)}
        return body | {"reason": self.reason, "details": self.details, "code": self.code}


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def not_found(kind: Kind, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{kind.resource} "{name}" not found', **kind.details(name))


def already_exists(kind: Kind, name: str) -> ApiError:
    return ApiError(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', **kind.details(name))


def forbidden(kind: Kind, name: str, why: str) -> ApiError:
    return ApiError(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', **kind.details(name))


def conflict(kind: Kind, name: str, why: str, subresource: str = "") -> ApiError:
    resource = kind.resource.replace(kind.plural, f"{kind.plural}/{subresource}", 1) if subresource else kind.resource
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return ApiError(409, "Conflict", message, **kind.details(name))


def stale(kind: Kind, name: str) -> ApiError:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def invalid(kind: Kind, name: str, *problems: tuple[str, str]) -> ApiError:
    """`problems` are (field path, message) pairs."""
    texts = [f"{path}: {message}" for path, message in problems]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [{"reason": "FieldValueInvalid", "message": message, "field": path} for path, message in problems]
    named = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    message = f'{named} "{name}" is invalid: {joined}'
    return ApiError(422, "Invalid", message, name=name, group=kind.group, kind=kind.kind, causes=causes)


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def unsupported_media(message: str) -> ApiError:
    return ApiError(415, "UnsupportedMediaType", message)
