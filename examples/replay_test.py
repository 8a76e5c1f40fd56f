"""A recorded session as a test case in Python, with the JSON of `hearken replay` (docs/replay-json.md).

    HEARKEN_URL=ws://127.0.0.1:9400/xiaozhi/v1/ python3 examples/replay_test.py

Set `HEARKEN` to the program if it is not on the path. Requires only Python 3.
"""

import json
import os
import subprocess
import unittest
from pathlib import Path

RECORDINGS = Path(__file__).parent.parent / "fixtures" / "audio"


def replay(name, *options):
    """Replays a recording; returns the outcome and the exit status."""
    program = os.environ.get("HEARKEN", "hearken")
    url = os.environ["HEARKEN_URL"]
    file = RECORDINGS / f"{name}.jsonl"
    command = [program, "replay", str(file), "--url", url, "--json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=60)
    outcome = json.loads(done.stdout)
    if outcome["error"]:
        raise RuntimeError(outcome["error"])
    return outcome, done.returncode


class Replay(unittest.TestCase):
    def test_a_short_question_is_answered_with_words_and_sound(self):
        outcome, status = replay("zh_own_foot", "--mode", "manual")
        self.assertEqual(status, 0)
        self.assertNotEqual(outcome["reply"], "")
        self.assertGreater(outcome["audio_ms"], 100)
        self.assertEqual(outcome["faults"], [])
        self.assertLess(outcome["stages"]["first_audio_ms"], 10_000)


if __name__ == "__main__":
    unittest.main()
