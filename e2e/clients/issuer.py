"""An issuer of tokens: its keys at a URL of this machine, and tokens that it signs."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from e2e.kafka.ports import LOOPBACK

AUDIENCE = "kafka"


class TokenIssuer:
    """An issuer. Use `running`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: dict[str, ec.EllipticCurvePrivateKey] = {}
        self.is_down = False
        self.change_key("first")

    def change_key(self, key_id: str) -> None:
        """Sign with a new key from now on, and publish no other one."""
        self.keys = {key_id: ec.generate_private_key(ec.SECP256R1())}

    def published(self) -> bytes:
        """The JSON Web Key Set."""
        entries = [
            {**ECAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": key_id, "use": "sig"}
            for key_id, key in self.keys.items()
        ]
        return json.dumps({"keys": entries}).encode()

    def token(self, user: str, valid_s: float = 300, **claims: Any) -> str:
        """A token for a user."""
        now_s = int(time.time())
        found = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": user,
            "iat": now_s,
            "exp": now_s + valid_s,
            **claims,
        }
        ((key_id, key),) = self.keys.items()
        return jwt.encode(found, key, algorithm="ES256", headers={"kid": key_id})

    @classmethod
    @contextmanager
    def running(cls) -> Iterator["TokenIssuer"]:
        """An issuer while the block runs."""

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = issuer.published()
                self.send_response(503 if issuer.is_down else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
            issuer = cls(f"http://{LOOPBACK}:{server.server_port}")
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield issuer
            finally:
                server.shutdown()
                thread.join()
