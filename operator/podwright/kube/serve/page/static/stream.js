// Server-sent events, by fetch: EventSource cannot show a token, and does not tell why it fails.

const RETRY_SECONDS = [1, 2, 5, 10];
const SILENT_SECONDS = 30;

/** Sends requests to the server, with the token if there is one. */
export class Server {
  token = "";

  /** The answer to GET of a path relative to the page. */
  get(path, options = {}) {
    const headers = this.token ? { Authorization: `Bearer ${this.token}` } : {};
    return fetch(path, { ...options, headers: { ...headers, ...options.headers }, cache: "no-store", credentials: "same-origin" });
  }

  /** A picture as an element; null if there is none. Only a request that parses the answer needs no trusted HTML. */
  picture(path) {
    return new Promise((resolve) => {
      const request = new XMLHttpRequest();
      request.open("GET", path);
      request.responseType = "document";
      if (this.token) request.setRequestHeader("Authorization", `Bearer ${this.token}`);
      request.onloadend = () => {
        const picture = request.status === 200 ? request.responseXML?.documentElement : null;
        resolve(picture ? document.importNode(picture, true) : null);
      };
      request.send();
    });
  }
}

/** Keeps a stream open. `events`: functions by the name of the event; `state`: gets "live", "waiting" or "refused", and a text. */
export class Stream {
  /** When something came last, by Date.now(); 0 before. */
  heard = 0;
  #server;
  #events;
  #state;
  #path = "";
  #abort = null;
  #failures = 0;

  constructor(server, events, state) {
    this.#server = server;
    this.#events = events;
    this.#state = state;
  }

  /** Opens the stream at this path, instead of the one that is open. */
  open(path) {
    this.close();
    this.#path = path;
    this.#abort = new AbortController();
    this.#run(this.#abort);
  }

  close() {
    this.#abort?.abort();
    this.#abort = null;
  }

  async #run(abort) {
    while (!abort.signal.aborted) {
      let problem = "the connection ended";
      try {
        const answer = await this.#server.get(this.#path, { signal: abort.signal });
        if (answer.ok) await this.#read(answer.body, abort);
        else {
          problem = await reason(answer);
          if (answer.status === 401 || answer.status === 403) {
            this.#state("refused", problem);
            return;
          }
        }
      } catch (error) {
        if (abort.signal.aborted) return;
        problem = "no connection";
      }
      if (abort.signal.aborted) return;
      this.#state("waiting", problem);
      const seconds = RETRY_SECONDS[Math.min(this.#failures, RETRY_SECONDS.length - 1)];
      this.#failures += 1;
      await new Promise((done) => setTimeout(done, seconds * 1000));
    }
  }

  async #read(body, abort) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    try {
      for (;;) {
        const { done, value } = await inTime(reader.read());
        if (done || abort.signal.aborted) return;
        const events = (text + value).split("\n\n");
        text = events.pop();
        this.#failures = 0;
        this.heard = Date.now();
        events.forEach((event) => this.#take(event));
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  #take(event) {
    let name = "";
    let data = "";
    for (const line of event.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ")) data = line.slice(6);
    }
    if (name === "hello") this.#state("live", "");
    if (name) this.#events[name]?.(JSON.parse(data));
  }
}

/** The next part, unless the server is silent for too long. */
function inTime(reading) {
  let timer;
  const silent = new Promise((_, refuse) => {
    timer = setTimeout(() => refuse(new Error("silent")), SILENT_SECONDS * 1000);
  });
  return Promise.race([reading, silent]).finally(() => clearTimeout(timer));
}

/** Why the server refused: its text, or the message of a Status. */
export async function reason(answer) {
  const text = (await answer.text()).trim().slice(0, 500);
  try {
    const parsed = JSON.parse(text);
    return String(parsed.message || parsed.error || text);
  } catch {
    return text || `${answer.status}`;
  }
}
