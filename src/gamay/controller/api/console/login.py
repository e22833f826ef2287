"""REST: how the console's users log in and out, who they are, and which calls they may make."""

from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import JSONResponse
from starlette.responses import Response

from gamay.base.clock import Clock
from gamay.base.errors import GamayError, InvalidConfigError
from gamay.cluster.access.audit import address_of
from gamay.cluster.access.logins import Logins
from gamay.cluster.access.passwords import basic_token
from gamay.cluster.access.principals import ANYONE, NOBODY, Principal, UnauthorizedError
from gamay.cluster.access.rights import Right
from gamay.controller.api.cookies import session_of, set_cookie
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.rights import CONTROLLER_RIGHTS
from gamay.controller.api.services import body_docs, json_body
from gamay.controller.api.sessions import Session, Sessions
from gamay.web.guarded import sender_of


def login_router(
    logins: Logins, sessions: Sessions, clock: Clock, cookie: str, *, is_open: bool, tls: bool
) -> GuardedRouter:
    """Return the routes; they need no log-in themselves.

    cookie: the name of the session's cookie. is_open: whether there is no access control. tls: whether clients use HTTPS.
    """
    router = GuardedRouter(tags=["Auth"])

    def told(sender: Principal, session: Session | None) -> dict[str, Any]:
        return {
            "workflow": "NONE" if is_open else "BASIC",
            "principal": described(sender) if sender.name else None,
            "allowed": allowed_calls(sender),
            "csrfToken": None if session is None else session.csrf_token,
            "expiresMs": None if session is None else clock.now_ms() + round(1000 * sessions.left_s(session)),
        }

    def answered(request: Request, document: dict[str, Any], secret: str) -> Response:
        secure = tls or request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
        headers = {"Set-Cookie": set_cookie(cookie, secret, secure=secure), "Cache-Control": "no-store"}
        return JSONResponse(document, headers=headers)

    @router.get("/auth/session", summary="Show who is logged in, and which calls it may make")
    def show(request: Request) -> Response:
        sent, sender = session_of(request.scope), sender_of(request.scope)
        if sent is not None and not sender.name:  # the user was deleted, or has another password by now
            sessions.end(sent.secret)
        session = sent.session if sent is not None and sender.name else None
        return JSONResponse(told(sender, session), headers={"Cache-Control": "no-store"})

    @router.post(
        "/auth/login",
        summary="Begin a session, by a name and a password",
        openapi_extra=body_docs("A name and a password", {"username": "bob", "password": "secret"}),
    )
    async def log_in(request: Request, body: Annotated[dict[str, Any], Depends(json_body)]) -> Response:
        if is_open:
            raise InvalidConfigError("log-in is not possible: this cluster has no access control")
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            # the HTML forms of other sites cannot send this type
            raise InvalidConfigError("the content type of a log-in must be application/json")
        name, password = body.get("username"), body.get("password")
        if not isinstance(name, str) or not isinstance(password, str) or not name:
            raise InvalidConfigError('a log-in is {"username": "…", "password": "…"}')
        try:
            authorization = basic_token(name, password)
            if ":" in name:
                raise UnauthorizedError("names have no ':'")
            sender = await logins.principal(authorization, address_of(request.scope), request.url.path)
        except (UnauthorizedError, UnicodeEncodeError) as error:  # no name contains half a surrogate pair
            raise UnauthorizedError("The user name or the password is wrong") from error
        if (before := session_of(request.scope)) is not None:
            sessions.end(before.secret)
        secret, session = sessions.begin(authorization)
        return answered(request, told(sender, session), secret)

    @router.post("/auth/logout", summary="End the session")
    def log_out(request: Request) -> Response:
        if (sent := session_of(request.scope)) is not None:
            sessions.end(sent.secret)
        return answered(request, told(ANYONE if is_open else NOBODY, None), "")

    return router


def described(principal: Principal) -> dict[str, Any]:
    """Return a principal as its user may see it: without the tables that are excluded."""
    return {
        "name": principal.name,
        "role": principal.effective_role.value,
        "tables": None if principal.tables is None else sorted(principal.tables - principal.excluded),
        "seesAllTables": principal.sees_all_tables,
    }


def allowed_calls(principal: Principal) -> list[str]:
    """Return the calls that a principal may make on the tables it may use, as `METHOD path` of the table of rights."""
    rights = CONTROLLER_RIGHTS.items()
    return [f"{method} {path}" for (method, path), right in rights if _is_allowed(principal, right, method)]


def _is_allowed(principal: Principal, right: Right, method: str) -> bool:
    try:
        right.check_some(principal, method)
    except GamayError:
        return False
    return True
