"""Files from the model hub: resumed, verified, kept.

Environment:
    VIVACE_CACHE   where files are kept (else ``$XDG_CACHE_HOME/vivace``, ``~/.cache/vivace``,
                   on Windows ``%LOCALAPPDATA%\\vivace``)
    HF_ENDPOINT    a mirror of the model hub
    HF_TOKEN       for repositories that are not open to all; else the token that ``hf auth login``
                   left is taken. Sent to the hub, and to nobody it redirects to
"""
