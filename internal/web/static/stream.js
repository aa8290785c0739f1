// Server-sent events by fetch, which the answer to a request can be too: no second
// request is needed for what comes of it.

// events reads a stream of server-sent events.
export async function* events(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { type: "message", id: "", text: "" };
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) event.type = line.slice(7);
        else if (line.startsWith("id: ")) event.id = line.slice(4);
        else if (line.startsWith("data: ")) event.text += line.slice(6);
      }
      if (event.text) yield { ...event, data: JSON.parse(event.text) };
    }
  }
}

// follow tells of each event until one is of the type last, whose data it returns. The
// connection may break: it is made again, after the last event that came, and lost is
// told that it broke, and that it is there.
export async function follow(connect, last, tell, { answer, lost = () => {} } = {}) {
  let at = "";
  for (let tries = 0; ; tries++) {
    try {
      if (!answer) {
        answer = await connect({ Accept: "text/event-stream", ...(at ? { "Last-Event-ID": at } : {}) });
        lost(false);
      }
      for await (const event of events(answer.body)) {
        tries = 0;
        at = event.id || at;
        if (event.type === last) return event.data;
        tell(event.type, event.data);
      }
    } catch (e) {
      if (e.status || tries > 20) throw e;
    }
    answer = null;
    lost(true);
    await new Promise((next) => setTimeout(next, Math.min(200 * 2 ** tries, 5000)));
  }
}
