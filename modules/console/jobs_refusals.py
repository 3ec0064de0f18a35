"""What the API server's refusals mean for an operator: one sentence, with what to do. Pure."""

from beehive.errors import BeehiveError, Refused, Unavailable
from modules.informer.answers import Reply, sentence, status_of


def refusal(reply: Reply, verb: str, what: str, where: str) -> BeehiveError:
    """The error for an answer that is no success; `what` is the name of the job, or the kind that was listed."""
    told = status_of(reply.body)
    if reply.status == 401:
        return Refused(f"{where} does not know these credentials. Log in again, or give others: --kubeconfig FILE.")
    if reply.status == 403 and "forbidden" in sentence(reply):
        return Refused(f"{_capital(sentence(reply))}. Ask who runs the cluster for this right, or try --context NAME.")
    if reply.status == 404 and told.reason != "NotFound":
        return Refused(
            f"{where} has no NodeUpgradeJobs: Beehive is not installed there. "
            "Install them: beehive crd | kubectl apply -f -"
        )
    if reply.status == 404:
        return Refused(f"There is no job {what}. See them all: beehive job list")
    if reply.status == 409 and verb == "create":
        return Refused(f"There is a job {what} already. Look at it: beehive job describe {what}")
    if reply.status in (429, 503, 504):
        return Unavailable(f"{where} is too busy to answer ({sentence(reply)}). Try again in a moment.")
    return Refused(_invalid(reply, what) or f"{where} refused to {verb} {what}: {sentence(reply)}")


def _invalid(reply: Reply, what: str) -> str:
    """All that is wrong, a line each, where the server names fields."""
    details = status_of(reply.body).details
    causes = details.causes if details else None
    if reply.status != 422 or not causes:
        return ""
    lines = (f"* {one.field}: {one.message}" if one.field else f"* {one.message}" for one in causes)
    return "\n".join((f"Job {what or '(new)'} is invalid:", *lines))


def problems_text(what: str, problems: list[str]) -> str:
    """The same for what was found wrong before the server was asked."""
    return "\n".join((f"Job {what or '(new)'} is invalid:", *(f"* {problem}" for problem in problems)))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
