"""Drives the agent as its `hello_world.py` does, or by its own command, with the models that the phase names."""

# It runs in the application's own environment.
# mypy: ignore-errors

import json
import os
import sys
import urllib.request

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel
from minisweagent.models.litellm_response_model import LitellmResponseModel
from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel
from minisweagent.models.openrouter_model import OpenRouterModel
from minisweagent.models.openrouter_textbased_model import OpenRouterTextbasedModel
from minisweagent.models.portkey_model import PortkeyModel
from minisweagent.models.utils.content_string import get_content_string
from minisweagent.run.mini import app

SERVER = os.environ["MODEL_SERVER"]
MODELS = {
    "litellm": LitellmModel,
    "text": LitellmTextbasedModel,
    "response": LitellmResponseModel,
    "openrouter": OpenRouterModel,
    "openrouter_text": OpenRouterTextbasedModel,
    "portkey": PortkeyModel,
}


def begin(phase):
    data = json.dumps(phase).encode()
    urllib.request.urlopen(urllib.request.Request(f"{SERVER}/phase", data, method="POST")).close()


def command(phase, settings):
    given = ["-t", "List the files.", "-m", "openai/gpt-4.1", "-y", "--exit-immediately", "-o", "trajectory.json"]
    given += ["--agent-class", settings["agent"]] if "agent" in settings else []
    try:
        app(given, standalone_mode=False)
    except Exception as error:
        print(phase["name"], "command ->", type(error).__name__)


def work(name, phase, settings):
    is_router = name.startswith("openrouter")
    named = "gpt-4.1" if name == "portkey" else "openai/gpt-4.1"
    model = MODELS[name](model_name=named if is_router else settings.get("model", named))
    if is_router:
        model._api_url = f"{SERVER}/chat/completions"  # the class has no setting for it
    agent = DefaultAgent(
        model,
        LocalEnvironment(timeout=2),
        system_template="You are an agent.",
        instance_template="{{task}}",
        step_limit=settings.get("steps", 6),
    )
    try:
        result = agent.run("List the files.")
    except Exception as error:
        result = {"exit_status": type(error).__name__}
    for message in agent.messages:
        get_content_string(message)  # what the inspector of trajectories shows
    print(phase["name"], name, "->", result.get("exit_status"))


for line in sys.stdin:
    phase = json.loads(line)
    settings = phase.pop("settings")
    begin(phase)
    for name in settings["models"]:
        command(phase, settings) if name == "command" else work(name, phase, settings)
