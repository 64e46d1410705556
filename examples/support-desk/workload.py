"""The support desk's day, squeezed: a schedule of what people do, the same for equal seeds.

Three assistants with long instructions. A visitor opens a page of the documentation, reads it for some seconds, then asks
about it; most ask again after another page; some leave without asking. A digest runs on a timer. Half-way one assistant's
instructions change (a deploy), which the deploy job tells the server beforehand. Nothing here talks to a server.
"""

import math
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CONVERSATIONS_PER_S = 0.25
ASSISTANTS = ("billing", "operations", "onboarding")
QUESTIONS = (
    "What does this mean for a customer who is new here?",
    "Which of these steps should I do first, and why?",
    "Is there a limit I have to know about before I start?",
    "What happens if I do nothing for a week?",
    "Can you put the main point into one sentence?",
    "Who has to agree before I change this?",
    "What would you check first when it does not work?",
    "Does this cost anything, and where would I see it?",
)


def passages(size_chars=360):
    """The project's own documentation, cut into passages of about size_chars at paragraph ends."""
    result = []
    for path in sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")]):
        text, number = "", 0
        for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
            words = " ".join(paragraph.split())
            if not words or words.startswith("|") or words.startswith("```"):
                continue
            text = f"{text} {words}".strip()
            while len(text) >= size_chars:
                cut = text.rfind(" ", 0, size_chars)
                cut = cut if cut > 0 else size_chars
                number += 1
                result.append((f"{path.relative_to(ROOT)}#{number}", text[:cut]))
                text = text[cut:].strip()
    return result


def instructions(assistant, deployed):
    text = (HERE / "assistants" / f"{assistant}.txt").read_text(encoding="utf-8").strip()
    if deployed:
        text = "Version of Friday. Greet the customer by name when it is known.\n" + text
    return text


class Turn:
    """One visit to a page: opened at `opens_s`, and, if asked, the question `reads_s` later."""

    def __init__(self, opens_s, reads_s, document, question, asks):
        self.opens_s, self.reads_s, self.document, self.question, self.asks = opens_s, reads_s, document, question, asks


class Conversation:
    def __init__(self, name, assistant, turns):
        self.name, self.assistant, self.turns = name, assistant, turns


class Schedule:
    def __init__(self, conversations, digests_s, deploy_s, deploy_told_s, duration_s):
        self.conversations, self.digests_s = conversations, digests_s
        self.deploy_s, self.deploy_told_s, self.duration_s = deploy_s, deploy_told_s, duration_s

    def requests(self):
        return len(self.digests_s) + sum(turn.asks for c in self.conversations for turn in c.turns)


def schedule(seed, duration_s=150.0, conversations=38, digest_every_s=20.0):
    """Everything that will happen, in seconds from the start."""
    draw = random.Random(seed)
    documents = passages()
    weights = [1.0 / (rank + 3) ** 0.6 for rank in range(len(documents))]
    order = list(range(len(documents)))
    draw.shuffle(order)
    result = []
    for number in range(conversations):
        at = draw.uniform(0, duration_s - 26)
        turns = []
        for _ in range(3):
            document = documents[order[draw.choices(range(len(documents)), weights)[0]]]
            asks = draw.random() < 0.88
            turns.append(Turn(at, draw.uniform(3.5, 8.0), document, draw.choice(QUESTIONS), asks))
            if not asks or draw.random() < 0.12:
                break
            at += turns[-1].reads_s + math.exp(draw.gauss(1.3, 0.5))  # the reply is read, another page is opened
        result.append(Conversation(f"visitor-{number}", draw.choices(ASSISTANTS, (5, 3, 2))[0], turns))
    digests = [digest_every_s * (i + 1) for i in range(int((duration_s - 5) / digest_every_s))]
    return Schedule(result, digests, duration_s * 0.5, duration_s * 0.5 - 6, duration_s)


if __name__ == "__main__":
    plan = schedule(1)
    print(plan.requests(), "requests,", len(passages()), "passages")
