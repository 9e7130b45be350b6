"""A client for JSON services that tries again while the other side is busy."""

import json
import time
from urllib.parse import urlencode

# Too many requests, bad gateway, unavailable, gateway timeout.
RETRYABLE = {429, 502, 503, 504}


class ServiceError(Exception):
    """The service answered, but not with what was asked for."""

    def __init__(self, status, message=""):
        super().__init__(message or f"HTTP {status}")
        self.status = status


class Response:
    def __init__(self, status, body="", headers=None):
        self.status = status
        self.body = body
        self.headers = headers or {}

    def json(self):
        return json.loads(self.body)


class RetryClient:
    """Sends requests through a transport and retries those worth retrying.

    Args:
        transport: Called with the method, the URL and the body (a string or
            None); returns a Response.
        base_url: What all paths are relative to.
        attempts: How often a request is sent at most.
        sleep: Replaced in tests.
    """

    def __init__(self, transport, base_url, attempts=4, sleep=time.sleep):
        self.transport = transport
        self.base_url = base_url.rstrip("/")
        self.attempts = attempts
        self.sleep = sleep

    def get(self, path, params=None):
        return self._send("GET", self.url_for(path, params), None)

    def post(self, path, payload):
        return self._send("POST", self.url_for(path), json.dumps(payload))

    def get_all(self, path, params=None):
        """Every item of a list that comes in pages."""
        items = []
        query = dict(params or {}, page=1)
        while True:
            answer = self.get(path, query)
            items.extend(answer["items"])
            if not answer.get("more"):
                return items
            query["page"] += 1

    def url_for(self, path, params=None):
        url = self.base_url + "/" + path.lstrip("/")
        if params:
            url += "?" + urlencode(params)
        return url

    def delay(self, attempt, response):
        """Seconds to wait before the next attempt."""
        asked = response.headers.get("Retry-After", "")
        if asked.isdigit():
            return float(asked)
        return min(0.25 * 2**attempt, 8.0)

    def _send(self, method, url, body):
        for attempt in range(self.attempts):
            response = self.transport(method, url, body)
            if response.status not in RETRYABLE:
                break
            if attempt + 1 < self.attempts:
                self.sleep(self.delay(attempt, response))
        if response.status >= 400:
            try:
                message = response.json()["error"]
            except (ValueError, KeyError):
                message = ""
            raise ServiceError(response.status, message)
        return response.json()
