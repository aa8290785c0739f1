"""LiteLLM's code interpreter in Airlock, by one address: without wildcard DNS and certificates.

LiteLLM calls an E2B sandbox by a host name of its own, always with TLS. This sends the same requests to the address
of the service, with the sandbox named in headers, as E2B's SDKs do with E2B_SANDBOX_URL.

In the proxy's config.yaml, with this file beside it:

    litellm_settings:
      callbacks: airlock_litellm.interpreter
"""

import os

from litellm.integrations.code_interpreter_interception.handler import CodeInterpreterInterceptionLogger
from litellm.llms.e2b.sandbox.transformation import JUPYTER_PORT, E2BSandboxConfig


class _ByAddress:
    """The client of one call, which goes to the service."""

    def __init__(self, client, url, sandbox):
        self.client, self.url = client, url
        self.headers = {"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": str(JUPYTER_PORT)}

    async def post(self, url, headers, **rest):
        return await self.client.post(url=self.url + "/execute", headers={**headers, **self.headers}, **rest)


class Airlock(E2BSandboxConfig):
    """E2B's sandboxes at an address such as http://127.0.0.1:8000/e2b."""

    def __init__(self, url, key):
        self.url, self.key = url.rstrip("/"), key

    async def acreate_sandbox(self, **how):
        return await super().acreate_sandbox(**{**how, "api_base": self.url, "api_key": self.key})

    async def arun_code(self, *, container, client=None, **how):
        client = _ByAddress(self._http(client), self.url, container.id)
        return await super().arun_code(container=container, client=client, **how)


interpreter = CodeInterpreterInterceptionLogger(
    sandbox_config=Airlock(
        os.environ.get("AIRLOCK_E2B_URL", "http://127.0.0.1:8000/e2b"),
        os.environ.get("AIRLOCK_E2B_KEY", "e2b_0000"),
    )
)
