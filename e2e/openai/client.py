"""Does with OpenAI's SDK of Python what applications do with it: client.py URL KEY."""
import re
import sys

import openai
from openai import OpenAI

client = OpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)
assert [m.id for m in client.models.list()] == ["tiny"] and client.models.retrieve("tiny").id == "tiny"


def fails(status, do):
    try:
        do()
    except openai.APIStatusError as e:
        assert e.status_code == status and e.body["message"], (e.status_code, e.body)
        return e
    raise AssertionError("no error")


# A file, code that reads it, shows a figure and writes another.
upload = client.files.create(file=("data.csv", b"a,b\n1,2\n3,4\n"), purpose="user_data")
assert upload.filename == "data.csv" and upload.bytes == 12
code = """```python
import glob, pandas, matplotlib.pyplot as plt
d = pandas.read_csv(glob.glob("/mnt/data/*data.csv")[0])
plt.plot(d.a); plt.show()
d.to_csv("/mnt/data/out.csv", index=False)
print(d.b.sum()); 6 * 7
```
```python
print(d.shape); 1 / 0
```"""
tool = {"type": "code_interpreter", "container": {"type": "auto", "file_ids": [upload.id]}}
got = client.responses.create(model="tiny", input=code, tools=[tool], include=["code_interpreter_call.outputs"])
assert got.status == "completed", got
first, second = [item for item in got.output if item.type == "code_interpreter_call"]
assert first.outputs[0].logs == "6\n42\n" and first.outputs[1].url.startswith("data:image/png;base64,"), first
assert "(2, 2)" in second.outputs[0].logs and "ZeroDivisionError" in second.outputs[0].logs, second
container = first.container_id
content = {}
for a in got.output[-1].content[0].annotations:
    assert a.type == "container_file_citation" and a.container_id == container
    content[a.filename] = client.containers.files.content.retrieve(a.file_id, container_id=container).read()
assert content.pop("out.csv") == b"a,b\n1,2\n3,4\n"
((name, picture),) = content.items()
assert re.fullmatch(r"cfile_.{21}\.png", name) and picture.startswith(b"\x89PNG"), name
sources = {f.path.rsplit("-", 1)[-1]: f.source for f in client.containers.files.list(container)}
assert sources["data.csv"] == "user", sources

# The next turn, streamed, in the same container: variables are there.
again = "```python\nprint(d.b.sum() * 2)\nopen('/mnt/data/result.txt', 'w').write('x')\n```\nLINK result.txt"
events, code = [], ""
with client.responses.stream(
    model="tiny",
    input=[{"role": "user", "content": "go on"}, *[item.to_dict() for item in got.output], {"role": "user", "content": again}],
    tools=[{"type": "code_interpreter", "container": {"type": "auto"}}],
) as stream:
    for e in stream:
        events.append(e.type)
        code += e.delta if e.type == "response.code_interpreter_call_code.delta" else ""
    last = stream.get_final_response()
assert code == "print(d.b.sum() * 2)\nopen('/mnt/data/result.txt', 'w').write('x')\n", code
assert "12\n" in last.output_text and last.output[-1].content[0].annotations[0].filename == "result.txt", last
a = last.output[-1].content[0].annotations[0]
assert last.output[-1].content[0].text[a.start_index : a.end_index] == "[result.txt](sandbox:/mnt/data/result.txt)", a
assert {i.container_id for i in last.output if i.type == "code_interpreter_call"} == {container}
order = [
    "response.created", "response.in_progress", "response.output_item.added", "response.code_interpreter_call.in_progress",
    "response.code_interpreter_call_code.delta", "response.code_interpreter_call_code.done",
    "response.code_interpreter_call.interpreting", "response.code_interpreter_call.completed", "response.output_item.done",
    "response.output_text.delta", "response.output_text.annotation.added", "response.output_text.done", "response.completed",
]
rest = iter(events)
assert all(kind in rest for kind in order), events

# And one that goes on with a kept response.
next = client.responses.create(
    model="tiny", input="```python\nprint(d.a.sum())\n```", previous_response_id=last.id,
    tools=[{"type": "code_interpreter", "container": {"type": "auto"}}],
)
assert next.output_text == "4\n" and next.output[0].container_id == container, next
assert client.responses.retrieve(next.id).output_text == "4\n"
client.responses.delete(next.id)
fails(404, lambda: client.responses.retrieve(next.id))

# Functions of the client's.
add = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}
call = client.responses.create(model="tiny", input="CALL add", tools=[add]).output[0]
assert (call.type, call.name, call.arguments) == ("function_call", "add", '{"a": 1}')
done = client.responses.create(
    model="tiny",
    input=[{"role": "user", "content": "CALL add"}, call.to_dict(), {"type": "function_call_output", "call_id": call.call_id, "output": "two"}],
    tools=[add],
)
assert done.output_text == "two", done

# Chat completions, with code and without.
chat = client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "```python\nprint(3)\n```"}], tools=[tool])
assert chat.choices[0].message.content == "3\n", chat
words = client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "hello there"}], stream=True)
assert "".join(c.choices[0].delta.content or "" for c in words if c.choices) == "hello there"

# Containers by themselves.
box = client.containers.create(name="mine", file_ids=[upload.id], expires_after={"anchor": "last_active_at", "minutes": 5})
mine = client.containers.files.create(box.id, file=("up.txt", b"hello"))
assert mine.source == "user" and mine.path.endswith("-up.txt") and mine.bytes == 5
ran = client.responses.create(
    model="tiny", input="```python\nimport os; print(sorted(n[27:] for n in os.listdir('/mnt/data')))\n```",
    tools=[{"type": "code_interpreter", "container": box.id}],
)
assert ran.output_text == "['data.csv', 'up.txt']\n" and ran.output[0].outputs is None, ran
client.containers.files.delete(mine.id, container_id=box.id)
assert [f.path[-8:] for f in client.containers.files.list(box.id)] == ["data.csv"]
assert box.id in [c.id for c in client.containers.list(name="mine")]
client.containers.delete(box.id)
fails(404, lambda: client.containers.retrieve(box.id))
e = fails(404, lambda: client.responses.create(model="tiny", input="x", tools=[{"type": "code_interpreter", "container": box.id}]))
assert "not found" in e.message
e = fails(400, lambda: client.responses.create(model="tiny", input="x", tools=[{"type": "web_search"}]))
assert e.param == "tools[0].type" and e.code == "unsupported_value"
whole = client.uploads.upload_file_chunked(
    file=b"0123456789" * 3, filename="parts.txt", bytes=30, mime_type="text/plain", purpose="user_data", part_size=16
)
assert (whole.status, whole.bytes, whole.file.filename, whole.file.bytes) == ("completed", 30, "parts.txt", 30), whole
assert client.files.content(whole.file.id).read() == b"0123456789" * 3
half = client.uploads.create(filename="x", bytes=2, mime_type="text/plain", purpose="user_data")
part = client.uploads.parts.create(half.id, data=b"a")
assert (half.status, part.upload_id) == ("pending", half.id)
fails(400, lambda: client.uploads.complete(half.id, part_ids=[part.id]))
assert client.uploads.cancel(half.id).status == "cancelled"
fails(404, lambda: client.uploads.complete(half.id, part_ids=[part.id]))
assert client.files.content(upload.id).read() == b"a,b\n1,2\n3,4\n"
assert client.files.delete(upload.id).deleted
fails(404, lambda: client.files.retrieve(upload.id))
fails(401, lambda: OpenAI(base_url=sys.argv[1], api_key="sk-none", max_retries=0).models.list())
