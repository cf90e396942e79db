"""A web service whose workers learn as one bandit: it shows ads, and takes clicks at any worker.

    export PROMETHEUS_MULTIPROC_DIR=$(mktemp -d)
    uvicorn app:app --workers 4 --no-access-log                                          # on the file ads.db
    ADS_STORE=redis://localhost gunicorn app:app -k uvicorn_worker.UvicornWorker -w 4 --graceful-timeout 30

Environment: ADS_STORE, a file or the URL of Redis; ADS_KEY_FILE, a file with 32 random bytes, the same for all workers:
with it one worker releases for all, and what is open in a worker that ends goes to another one. ADS_WINDOW, the seconds
in which a click counts. ADS_OPERATOR_KEY, a secret of the operator: without it there is no /operator. A log of requests
would be a list of clicks, so write none.
"""

import asyncio
import contextlib
import os
import secrets
from pathlib import Path

import dpb
import prometheus_client
from fastapi import FastAPI, Header, Response
from prometheus_client import multiprocess

STORE, KEY_FILE = os.environ.get("ADS_STORE", "ads.db"), os.environ.get("ADS_KEY_FILE")
OPERATOR_KEY = os.environ.get("ADS_OPERATOR_KEY", "")
CONFIG = dpb.Config(
    arms=10,
    epsilon=1.0,  # for each click
    reward_window=int(os.environ.get("ADS_WINDOW", "1800")),  # seconds until a decision without a click counts as one
    clock=dpb.Clock.CALLER,
    pending_capacity=1 << 20,  # decisions in these seconds, of one worker
    fleet_key=Path(KEY_FILE).read_bytes() if KEY_FILE else None,
)

GAUGES = {
    name: prometheus_client.Gauge(f"dpb_{name}", help, ["node"], multiprocess_mode="livemax")
    for name, help in {
        "decisions": "Decisions made.",
        "answered": "Decisions whose window is over.",
        "epsilon_spent": "Upper bound of the privacy loss so far.",
        "ready": "1 if the worker may serve.",
        "outage": "1 while rewards do not arrive in time.",
        "nodes": "Workers that are alive.",
        "lift_low": "Lower end of a 95% interval for what decisions gain over even play: 0.1 is 10% more.",
        "lift_high": "Upper end of that interval.",
    }.items()
}


def store():
    """Of each worker: connections and nodes do not survive a fork."""
    if "://" not in STORE:
        return dpb.fleet.File(STORE)
    import redis.asyncio

    return redis.asyncio.Redis.from_url(STORE)


@contextlib.asynccontextmanager
async def lifespan(app):
    # Runs in each worker, after the fork, and ends before it does.
    async with dpb.fleet.Node(store(), "ads", CONFIG, tick=1.0) as node:
        app.state.node = node
        metrics = asyncio.create_task(measure(node))
        yield
        metrics.cancel()
    multiprocess.mark_process_dead(os.getpid())


app = FastAPI(lifespan=lifespan)


async def measure(node):
    """Writes what anybody may know where all workers' pages find it."""
    while True:
        values = {**vars(node.bandit.report()), **vars(node.report())}
        with contextlib.suppress(dpb.NotReadyError):  # until each arm has a release
            # In a thread, because it takes milliseconds.
            values["lift_low"], values["lift_high"] = await asyncio.to_thread(node.bandit.lift)
        for name, gauge in GAUGES.items():
            if name in values:
                gauge.labels(node=values["number"]).set(values[name])
        await asyncio.sleep(1)


@app.get("/ad")
async def ad():
    decision = app.state.node.select()
    # A ticket has 64 bits, and JavaScript rounds such numbers.
    return {"ad": decision.arm, "ticket": str(decision.ticket)}


@app.post("/click/{ticket}", status_code=204)
async def click(ticket: int):
    # Whether it counted reveals whether there was a click before: the reply is always the same.
    with contextlib.suppress(dpb.Error):
        app.state.node.update(ticket, 1.0)


@app.get("/privacy")
async def privacy():
    return Response(app.state.node.bandit.statement_text(), media_type="text/plain")


@app.get("/privacy.json")
async def privacy_json():
    return app.state.node.bandit.statement()


@app.get("/ready")
async def ready():
    return Response(status_code=200 if app.state.node.report().ready else 503)


@app.get("/metrics")
async def metrics():
    registry = prometheus_client.CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)
    return Response(prometheus_client.generate_latest(registry), media_type=prometheus_client.CONTENT_TYPE_LATEST)


@app.get("/operator")
async def operator(authorization: str = Header("")):
    """Counts of clicks of this worker: NOT private, so only for who has the operator's key."""
    if not OPERATOR_KEY or not secrets.compare_digest(authorization.encode(), f"Bearer {OPERATOR_KEY}".encode()):
        return Response(status_code=404)
    node, bandit = app.state.node.diagnostics(), app.state.node.bandit.diagnostics()
    return {"node": app.state.node.report().number, "pid": os.getpid(), **vars(node), **vars(bandit)}
