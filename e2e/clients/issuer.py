"""An issuer of tokens: its keys at a URL of this machine, and tokens that it signs."""

import json
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote_plus

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from e2e.kafka.ports import LOOPBACK

AUDIENCE = "kafka"
CLIENT_ID, CLIENT_SECRET = "orders app", 'of "the" app:/+\\'
"""With characters that have a meaning in JAAS configurations, headers or URLs."""


class TokenIssuer:
    """An issuer. Use `running`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: dict[str, ec.EllipticCurvePrivateKey] = {}
        self.is_down = False
        self.requests: list[dict[str, str]] = []
        """The forms of those who requested a token."""
        self.user = "admin"
        """Whom the tokens of `CLIENT_ID` are for."""
        self.valid_s = 300.0
        """How long they are valid."""
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

    def respond(self, authorization: str, form: str) -> tuple[int, dict[str, str]]:
        """Answer a request for a token with client credentials (RFC 6749, section 4.4)."""
        self.requests.append(dict(parse_qsl(form)))
        known = b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        encoded = f"{quote_plus(CLIENT_ID)}:{quote_plus(CLIENT_SECRET)}".encode()
        if authorization not in {f"Basic {known}", f"Basic {b64encode(encoded).decode()}"}:
            return 401, {"error": "invalid_client", "error_description": authorization}
        return 200, {"access_token": self.token(self.user, self.valid_s), "token_type": "Bearer"}

    @classmethod
    @contextmanager
    def running(cls) -> Iterator["TokenIssuer"]:
        """An issuer while the block runs."""
        issuer = cls("")
        with issuer.serving() as issuer.url:
            yield issuer

    @contextmanager
    def serving(self, certificate: Path | None = None) -> Iterator[str]:
        """Publish the keys and give tokens while the block runs, at the URL that it gets. With a
        certificate, which is a directory as `Issued.write` writes it, by TLS."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(200, issuer.published())

            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, answer = issuer.respond(self.headers["Authorization"], form)
                self.answer(status, json.dumps(answer).encode())

            def answer(self, status: int, body: bytes) -> None:
                self.send_response(503 if issuer.is_down else status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        with Server((LOOPBACK, 0), Handler) as server:
            scheme = "http"
            if certificate is not None:
                scheme, context = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(certificate / "tls.crt", certificate / "tls.key")
                server.socket = context.wrap_socket(server.socket, server_side=True)
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield f"{scheme}://{LOOPBACK}:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()


class Server(ThreadingHTTPServer):
    """A server that does not print what it thinks of clients that give up."""

    def handle_error(self, *_: Any) -> None:
        """Print nothing."""
