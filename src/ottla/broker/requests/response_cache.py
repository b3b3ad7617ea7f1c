"""Answers that were encoded once and are sent many times: good for as long as the image is."""

from collections import OrderedDict
from collections.abc import Hashable

from ottla.protocol.exchange import Encoded

ANSWERS_BYTES_MAX = 8 << 20


class EncodedAnswers:
    """Of one image at a time: an answer of another is forgotten. The least recently used go first.

    A key must say all that an answer depends on besides the image.
    """

    __slots__ = ("_answers", "_bytes_max", "_image_n", "size_bytes")

    def __init__(self, bytes_max: int = ANSWERS_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._answers: OrderedDict[Hashable, Encoded] = OrderedDict()
        self._image_n = -1
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, image_n: int, key: Hashable) -> Encoded | None:
        """The answer to this question, if it was given since the image last changed."""
        if image_n != self._image_n:
            self._answers.clear()
            self._image_n, self.size_bytes = image_n, 0
            return None
        answer = self._answers.get(key)
        if answer is not None:
            self._answers.move_to_end(key)
        return answer

    def keep(self, key: Hashable, answer: Encoded) -> None:
        """Remembers what was just made, for the image that was last asked for."""
        size = len(answer.content)
        if size > self._bytes_max or key in self._answers:
            return
        self._answers[key] = answer
        self.size_bytes += size
        while self.size_bytes > self._bytes_max:
            _, forgotten = self._answers.popitem(last=False)
            self.size_bytes -= len(forgotten.content)
