"""Any OpenAI-compatible endpoint as an engine: llama.cpp, vLLM, SGLang, Ollama, or a rented one.

Work is sent as a streaming request; closing the stream is how it is aborted. When the reader is
slow we stop reading, and the endpoint waits on its socket.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from vivace.addresses import is_loopback
from vivace.completion import beginnings, fim
from vivace.conversation.deltas import Delta
from vivace.conversation.so_far import SoFar
from vivace.engines.base import Card, Chat, Continues, Work
from vivace.engines.chunks import ChunkReader
from vivace.engines.failures import failure
from vivace.engines.messages import chat_messages, estimate_tokens, with_user, written
from vivace.engines.raw_text import RawReading, raw
from vivace.engines.thinking import MARKS, Marks, template_arguments
from vivace.engines.tool_forms import ToolForms
from vivace.errors import CannotContinue, EngineAbsent, EngineDied, EngineRefused
from vivace.models import Fim, Thinking
from vivace.protocol.items import Item, text_of
from vivace.protocol.requests import Fill, JsonObjectFormat, JsonSchemaFormat, TextFormat, Toolbox
from vivace.protocol.sse import EndlessLine, SseLines
from vivace.retry_after import retry_after

__all__ = ["OpenAIEngine"]

_CHAT_ONLY = frozenset(
    {"messages", "chat_template_kwargs", "continue_final_message", "add_generation_prompt"}
)
"""What only a conversation has that is still to be written as text."""
_LONGEST_REFUSAL = 65_536
"""Bytes. No more of what an endpoint says with an error is read."""


class OpenAIEngine:
    continues: Continues = "no"
    counts = False

    def __init__(
        self,
        name: str,
        card: Card,
        url: str,
        *,
        upstream: str | None = None,
        key: str | None = None,
        fim: Fim | None = None,
        forces_calls: bool = True,
        predictions: bool = False,
        llamacpp: bool = False,
        thinking: Thinking | None = None,
        socket: Path | None = None,
    ) -> None:
        """``url`` ends in ``/v1``. ``upstream`` is the model's name there, if it is another.

        ``forces_calls``: whether the endpoint really makes a call when one is required. Where it
        does not, the call is asked for by a schema, which it does follow. ``predictions``: whether
        it takes the text that a client foretells. ``llamacpp``: whether it is llama.cpp's server,
        which does more than others: it says how far it has read, so that work that is broken off is
        counted too, tokenises the strings of a prompt one by one, keeps to a grammar, and takes
        what the chat template is to be told, which ``thinking`` says where the model is known.
        ``socket``: the Unix socket of an endpoint that has no port; the host in ``url`` is but a
        name then.
        """
        self.name = name
        self.cards: Sequence[Card] = (card,)
        self._upstream = upstream or card.name
        self._fim = fim
        self._forces_calls = forces_calls
        self._predictions = predictions
        self._llamacpp = llamacpp
        self._thinking = thinking
        self._marks = Marks(thinking.opens, thinking.closes) if thinking else MARKS
        self._root = url.rstrip("/").removesuffix("/v1")
        self._running = 0
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._connect = functools.partial(_client, url.rstrip("/"), headers, socket)
        self._http = self._connect()

    async def start(self) -> None:
        """The endpoint is someone else's to run; only our own connections begin again."""
        if self._http.is_closed:
            self._http = self._connect()

    async def stop(self) -> None:
        await self._http.aclose()

    def healthy(self) -> bool:
        return True

    def running(self) -> int:
        return self._running

    def count(self, items: Sequence[Item], model: str) -> int:
        return estimate_tokens(items)

    def metrics(self) -> bytes:
        return b""

    async def generate(self, work: Work) -> AsyncGenerator[Delta, None]:
        if self._http.is_closed:
            raise EngineAbsent(f"{self.name} was stopped.")
        forms = _forms(work)
        path, body = await written(work.prompt, self._asked, work, forms)
        reader = ChunkReader(forms, generate=work.generate, forced=self._by_schema(forms))
        rest = RawReading(work.said, self._marks) if work.said is not None else None
        self._running += 1
        try:
            if work.said is not None:
                path, body = "/completions", await self._gone_on_with(work.said, body)
            async with self._streaming(path, body, work.traceparent) as response:
                async for line in _events(response):
                    deltas = (
                        [*reader.feed(line)] if rest is None else [*rest.read(reader.feed(line))]
                    )
                    work.tally.steps += 1
                    work.tally.output, work.tally.cached = reader.written, reader.cached
                    for delta in deltas:
                        yield delta
            if not reader.complete:
                raise EngineDied(f"{self.name} broke off in the middle of its answer.")
            for delta in reader.finish() if rest is None else rest.read(reader.finish()):
                yield delta
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise EngineAbsent(f"{self.name} cannot be reached: {type(error).__name__}.") from error
        except (httpx2.RequestError, EndlessLine) as error:
            raise EngineDied(
                f"{self.name} cannot be reached or broke off: {type(error).__name__}."
            ) from error
        finally:
            self._running -= 1
            work.tally.input, work.tally.cached = reader.read_so_far, reader.cached
            work.tally.output = reader.written

    def _asked(self, work: Work, forms: ToolForms) -> tuple[str, dict[str, Any]]:
        """Where it is asked for, and how."""
        if isinstance(work.prompt, Chat):
            path, body = "/chat/completions", self._chat(work.prompt, forms)
            body["messages"] = self._messages(work, body["messages"])
            if work.thoughts is not None:
                body |= {"continue_final_message": "content", "add_generation_prompt": False}
        else:
            path, body = "/completions", self._completion(work.prompt)
            if self._llamacpp and work.generate and work.prompt.starts_with:
                body["grammar"] = beginnings.grammar(work.prompt.starts_with)
        return path, body | self._settings(work, stop=body.get("stop", []))

    async def _gone_on_with(self, said: SoFar, body: dict[str, Any]) -> dict[str, Any]:
        """The same as raw text, which llama.cpp takes: its chat would repeat what was said."""
        if not self._llamacpp:
            raise CannotContinue(f"{self.name} has no way to be told what was said before.")
        prompt = body.pop("prompt", None)
        if prompt is None:
            prompt = raw(await self._templated(body), said, self._marks)
        elif isinstance(prompt, str):
            prompt += said.text
        else:
            prompt = {"prompt_string": [*prompt["prompt_string"], said.text]}
        told = {name: value for name, value in body.items() if name not in _CHAT_ONLY}
        return told | {"prompt": prompt}

    async def _templated(self, body: dict[str, Any]) -> str:
        answer = await self._http.post(self._root + "/apply-template", json=body)
        if answer.status_code >= 400:
            raise CannotContinue(f"{self.name} does not say how it writes a conversation.")
        prompt: str = answer.json()["prompt"]
        return prompt

    @contextlib.asynccontextmanager
    async def _streaming(
        self, path: str, body: dict[str, Any], traceparent: str | None
    ) -> AsyncIterator[httpx2.Response]:
        headers = {"content-type": "application/json"}
        if traceparent is not None:
            headers["traceparent"] = traceparent
        request = self._http.build_request(
            "POST", path, content=msgspec.json.encode(body), headers=headers
        )
        try:
            response = await self._http.send(request, stream=True)
        except httpx2.RemoteProtocolError:
            # Closed before a word was said. llama.cpp promises to keep its connections and closes
            # them after every streamed answer; what is sent in that moment was never read.
            response = await self._http.send(request, stream=True)
        try:
            if response.status_code >= 400:
                wait = retry_after(response.headers)
                raise failure(response.status_code, await _refusal(self.name, response), wait)
            yield response
        finally:
            await response.aclose()

    def _chat(self, chat: Chat, forms: ToolForms) -> dict[str, Any]:
        body: dict[str, Any] = {"messages": chat_messages(chat, forms, thoughts=self._llamacpp)}
        body |= self._effort(chat)
        tools = forms.declarations()
        if self._by_schema(forms):
            _add_instruction(body["messages"], forms.forced_request())
            schema = {"name": "call", "schema": forms.forced_schema(), "strict": True}
            return body | {"response_format": {"type": "json_schema", "json_schema": schema}}
        if tools:
            body["tools"] = tools
            body["tool_choice"] = forms.mode
            body["parallel_tool_calls"] = chat.parallel_tool_calls
        form = _response_format(chat.format)
        if form is not None:
            body["response_format"] = form
        if self._predictions and chat.prediction is not None and not tools:  # they take no both
            body["prediction"] = {"type": "content", "content": text_of(chat.prediction.content)}
        return body

    def _effort(self, chat: Chat) -> dict[str, Any]:
        if chat.effort is None:
            return {}
        if self._llamacpp:
            told = template_arguments(self._thinking, chat.effort)
            if told and self._thinking is not None and self._thinking.switch is not None:
                # Whatever the template calls it, the server itself goes by this.
                told = {"enable_thinking": chat.effort != "none", **told}
            return {"chat_template_kwargs": told} if told else {}
        return {"reasoning_effort": chat.effort}

    def _messages(self, work: Work, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """With what the model has thought already: llama.cpp closes the thoughts of a last message
        that is to be gone on with at its content, as its template does."""
        if work.thoughts is None:
            return messages if work.generate else with_user(messages)
        if not self._llamacpp:
            raise EngineRefused(f"{self.name} has no way to be told that the thinking is over.")
        begun = {"role": "assistant", "content": "", "reasoning_content": work.thoughts.text}
        return [*messages, begun]

    def _by_schema(self, forms: ToolForms) -> bool:
        return not self._forces_calls and forms.mode == "required" and bool(forms.declarations())

    def _completion(self, fill: Fill) -> dict[str, Any]:
        if not fill.is_gap:
            return {"prompt": fill.prefix + fill.typed}
        if self._fim is None:  # the endpoint may know how, and will say so if it does not
            return {"prompt": fill.prefix + fill.typed, "suffix": fill.suffix}
        prompt: object = fim.render_as_one(fill, self._fim)
        if self._llamacpp and "".join(parts := fim.render(fill, self._fim)) != prompt:
            prompt = {"prompt_string": parts}
        return {"prompt": prompt, "stop": list(fim.stops(self._fim))}

    def _settings(self, work: Work, stop: list[str]) -> dict[str, Any]:
        sampling = work.sampling
        settings: dict[str, Any] = {
            "model": self._upstream,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
            "max_tokens": sampling.max_tokens if work.generate else 1,
            "seed": sampling.seed,
            "stop": [*stop, *sampling.stop] or None,
            "return_progress": self._llamacpp or None,
        }
        return {name: value for name, value in settings.items() if value is not None}


def _forms(work: Work) -> ToolForms:
    if not isinstance(work.prompt, Chat):
        return ToolForms(Toolbox())
    return ToolForms(work.prompt.toolbox, work.prompt.tool_choice)


def _client(url: str, headers: dict[str, str], socket: Path | None) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
    verify = httpx2.URL(url).scheme == "https"  # reading the certificates takes its time
    by_socket = (
        httpx2.AsyncHTTPTransport(uds=str(socket), limits=limits, verify=verify) if socket else None
    )
    return httpx2.AsyncClient(
        base_url=url,
        headers=headers,
        # Reading a long prompt on a small machine takes minutes before the first byte comes.
        timeout=httpx2.Timeout(10, read=900),
        limits=limits,
        transport=by_socket,
        verify=verify,
        # A proxy for the world cannot reach this machine's own loopback.
        trust_env=not is_loopback(httpx2.URL(url).host),
    )


async def _events(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The data of each event, up to the mark that ends the stream."""
    lines = SseLines()
    async for data in response.aiter_bytes():
        for line in lines.feed(data):
            if line == b"[DONE]":
                return
            yield line
    for line in lines.end():
        yield line


def _add_instruction(messages: list[dict[str, Any]], text: str) -> None:
    """Into the first system message: many templates take only one."""
    if messages and messages[0]["role"] == "system":
        messages[0]["content"] += f"\n\n{text}"
    else:
        messages.insert(0, {"role": "system", "content": text})


def _response_format(form: TextFormat) -> dict[str, Any] | None:
    if isinstance(form, JsonObjectFormat):
        return {"type": "json_object"}
    if isinstance(form, JsonSchemaFormat):
        schema = {"name": form.name, "schema": form.schema or {}, "strict": bool(form.strict)}
        return {"type": "json_schema", "json_schema": schema}
    return None


async def _refusal(name: str, response: httpx2.Response) -> str:
    """What the endpoint said, as far as it said anything; never the whole of what we sent."""
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > _LONGEST_REFUSAL:
            break
    try:
        said = msgspec.json.decode(body)["error"]
        said = said.get("message", said) if isinstance(said, dict) else said
    except (msgspec.MsgspecError, KeyError, TypeError, RecursionError):
        said = body.decode(errors="replace")
    return f"{name} refused the request with {response.status_code}: {str(said)[:300]}"
