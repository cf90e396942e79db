"""Asks the server by OpenFeature's provider for Python. Prints what it says as JSON."""

import json
import os

from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext

api.set_provider(OFREPProvider(os.environ["OFREP"]))
client = api.get_client()
visitor = EvaluationContext("visitor-1", {"device": "phone"})


def said(details):
    code = details.error_code and details.error_code.value
    return {
        "value": details.value,
        "variant": details.variant,
        "reason": str(details.reason),
        "errorCode": code,
        "flagMetadata": dict(details.flag_metadata),
    }


server = {
    "button": said(client.get_string_details("button", "none", visitor)),
    "limit": said(client.get_integer_details("limit", 0, visitor)),
    "offer": said(client.get_object_details("offer", {}, visitor)),
    "none": said(client.get_string_details("none", "mine", visitor)),
    "mismatch": said(client.get_boolean_details("button", True, visitor)),
}
nobody = client.get_string_details("button", "none", EvaluationContext()).error_code
print(json.dumps({"server": server, "nobody": nobody and nobody.value}))
