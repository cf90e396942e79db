"""A web service that tests three versions of a page: a visitor keeps a version, and anybody may read the verdict, at /.

    openssl rand 32 >key; chmod 600 key
    TEST_KEY_FILE=key uvicorn ab_test:app --no-access-log

Run one worker: it counts who has come, and a person who reached two would count twice. A restart goes on with the test:
the server leaves its state in TEST_STATE (test.state), sealed by the key, 32 random bytes. A server that is killed leaves
none, and then the test begins anew. A log of requests would be a list of purchases, so write none.
"""

import contextlib
import math
import os
import secrets
import time
from pathlib import Path

import dpb
from fastapi import Cookie, FastAPI, Response
from fastapi.responses import FileResponse, PlainTextResponse

STATE = Path(os.environ.get("TEST_STATE", "test.state"))
VERSIONS = ["red", "green", "blue"]
CONFIG = dpb.Config(
    arms=len(VERSIONS),
    epsilon=1.0,  # for each person
    beta=0.05,  # confidence 95%
    tolerance=0.01,  # a point is no difference
    planned_end=200_000,  # people
    sticky=20261129,  # another number for each test
    expected_users=200_000,
    reward_window=int(os.environ.get("TEST_WINDOW", "3600")),  # seconds until a visit without a purchase counts as one
    clock=dpb.Clock.CALLER,
    pending_capacity=1 << 20,  # visits in these seconds
    fleet_key=Path(os.environ["TEST_KEY_FILE"]).read_bytes(),
)


def durable(directory):
    """Makes the names in a directory durable."""
    number = os.open(directory, os.O_RDONLY)
    os.fsync(number)
    os.close(number)


def begin():
    """Continues from the state of the last server, which no other process can read from then on; or begins."""
    taken = STATE.with_suffix(".taken")
    try:
        STATE.replace(taken)
    except FileNotFoundError:
        return dpb.Bandit(CONFIG, "dp-tt")
    durable(STATE.absolute().parent)
    test = dpb.Bandit.resume(taken.read_bytes(), CONFIG)
    test.claimed()
    taken.unlink()
    return test


def end(test):
    """Leaves the whole state to the next server."""
    new = STATE.with_suffix(".new")
    with open(new, "wb") as file:
        file.write(test.suspend())
        file.flush()
        os.fsync(file.fileno())
    new.replace(STATE)
    durable(STATE.absolute().parent)


@contextlib.asynccontextmanager
async def lifespan(app):
    app.state.test = begin()
    yield
    end(app.state.test)


app = FastAPI(lifespan=lifespan)


def test():
    """The test at the present time: visits whose window is over count."""
    app.state.test.advance(int(time.time()))
    return app.state.test


@app.get("/version")
async def version(response: Response, visitor: int = Cookie(0)):
    """The version for this visitor, who gets the same one with the same cookie."""
    if not 0 < visitor < 1 << 64:
        visitor = secrets.randbits(63) + 1
        response.set_cookie("visitor", str(visitor), max_age=90 * 86400, httponly=True, samesite="lax")
    decision = test().select(user=visitor)
    return {"version": VERSIONS[decision.arm], "ticket": str(decision.ticket)}


@app.post("/bought/{ticket}", status_code=204)
async def bought(ticket: int):
    # Whether it counted reveals whether there was a purchase before: the reply is always the same.
    with contextlib.suppress(dpb.Error):
        test().update(ticket, 1.0)


@app.get("/verdict")
async def verdict():
    """Released values alone."""
    found = test().verdict()
    arms = [
        {"version": name, "rate": arm["mean"], "visitors": arm["effective_pulls"], "is_left": bool(arm["active"])}
        for name, arm in zip(VERSIONS, test().arms())
    ]
    return finite({**vars(found), "state": found.state.name, "tolerance": CONFIG.tolerance, "arms": arms})


@app.get("/privacy", response_class=PlainTextResponse)
async def privacy():
    return app.state.test.statement_text()


@app.get("/privacy.json")
async def privacy_json():
    return app.state.test.statement()


def finite(value):
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [finite(each) for each in value]
    return value if not isinstance(value, float) or math.isfinite(value) else None


@app.get("/")
async def page():
    return FileResponse(Path(__file__).with_suffix(".html"))
