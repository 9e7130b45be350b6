"""Which files a repository of the hub has."""

from __future__ import annotations

import json

from vivace.download import web
from vivace.download.hub import listing_url
from vivace.errors import DownloadError

__all__ = ["files_in"]

LARGEST = 16 << 20


def files_in(repo: str) -> list[str]:
    try:
        with web.opened(listing_url(repo)) as answer:
            named = json.loads(web.read(answer, LARGEST))["siblings"]
            return [str(each["rfilename"]) for each in named]
    except web.Refused as refused:
        reason, advice = str(refused), refused.hint or "Check the spelling"
    except web.Trouble as trouble:
        reason, advice = str(trouble), "Check the connection"
    except (ValueError, KeyError, TypeError):
        reason, advice = f"{listing_url(repo)} does not list files", "Check HF_ENDPOINT"
    raise DownloadError(f"{repo}: {reason}. {advice}, or give a local file with --model PATH.")
