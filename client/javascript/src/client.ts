import createClient, { type Client } from 'openapi-fetch'
import { AirlockError } from './errors.js'
import { type RunEvent, read, runEvent } from './events.js'
import type { File as StoredFile, paths, Proposal, Run, RunRequest, SessionRequest, Session as Info } from './schema.js'
import { Session } from './session.js'

/** How a service is reached. */
export interface Options {
	/** Address of the service; absent, AIRLOCK_SERVER, else http://127.0.0.1:8000. */
	server?: string
	/** Key of the caller; absent, AIRLOCK_KEY. */
	key?: string
	/** Makes the requests; absent, the runtime's fetch. */
	fetch?: typeof fetch
}

/** Content of a file for a program, or a file that is stored. */
export type FileContent = string | Uint8Array<ArrayBuffer> | Blob | StoredFile

/** Of a run: fields of the API's RunRequest, with files by their names in the workspace. */
export type RunOptions = Partial<Omit<RunRequest, 'code' | 'files' | 'wait'>> & {
	files?: Record<string, FileContent>
	signal?: AbortSignal
}

/** Of a live session: fields of the API's SessionRequest, with files by their names in the workspace. */
export type SessionOptions = Partial<Omit<SessionRequest, 'kind' | 'files'>> & { files?: Record<string, FileContent> }

const environment = (name: string): string => globalThis.process?.env?.[name] ?? ''

/** A client of one service. */
export class Airlock {
	/** Makes any call of the API. */
	readonly api: Client<paths>
	readonly #base: string
	readonly #headers: Record<string, string>
	readonly #fetch: typeof fetch

	constructor(options: Options = {}) {
		const server = (options.server ?? environment('AIRLOCK_SERVER')) || 'http://127.0.0.1:8000'
		const key = options.key ?? environment('AIRLOCK_KEY')
		this.#base = `${server.replace(/\/+$/, '')}/api/v1`
		this.#headers = key ? { authorization: `Bearer ${key}` } : {}
		this.#fetch = options.fetch ?? globalThis.fetch
		this.api = createClient<paths>({
			baseUrl: this.#base,
			headers: this.#headers,
			fetch: (request) => this.#send(request),
		})
	}

	/** Runs a program and returns when it has ended. New and changed files come back. */
	async run(code: string, options: RunOptions = {}): Promise<Run> {
		const { signal, ...rest } = options
		return this.json('POST', '/runs', await this.#request(code, rest), signal)
	}

	/** Runs a program and yields its events as they happen. Leaving the loop ends the program. */
	async *stream(code: string, options: RunOptions = {}): AsyncGenerator<RunEvent, void, void> {
		const { signal, ...rest } = options
		for await (const { name, data } of this.events('/runs', await this.#request(code, rest), signal)) {
			yield runEvent(name, data)
			if (name === 'result') return
		}
	}

	/** Makes a live session: an interpreter with variables that stay, in a workspace with files. */
	async session(options: SessionOptions = {}): Promise<Session> {
		const { files, ...rest } = options
		const kind = rest.snapshot ? {} : { kind: 'live' }
		const references = files ? { files: await this.#references(files) } : {}
		return new Session(this, await this.json<Info>('POST', '/sessions', { ...kind, ...rest, ...references }))
	}

	/** Returns a session that exists. */
	async getSession(id: string): Promise<Session> {
		return new Session(this, await this.json<Info>('GET', `/sessions/${encodeURIComponent(id)}`))
	}

	/** Stores a file. */
	async upload(name: string, content: string | Uint8Array<ArrayBuffer> | Blob): Promise<StoredFile> {
		const body = typeof content === 'string' ? new TextEncoder().encode(content) : content
		const headers = { 'content-type': 'application/octet-stream' }
		const answer = await this.#call('POST', `/files?name=${encodeURIComponent(name)}`, { body, headers })
		return (await answer.json()) as StoredFile
	}

	/** Returns the content of a stored file. */
	async read(file: StoredFile | string): Promise<Uint8Array<ArrayBuffer>> {
		const id = typeof file === 'string' ? file : file.id
		return this.bytes(`/files/${encodeURIComponent(id)}/content`)
	}

	/** Reads a model's reply, and returns what it would change in a project's folder. Nothing is changed yet. */
	async propose(text: string, project: string): Promise<Proposal> {
		return this.json('POST', '/replies', { text, project })
	}

	/** Carries out a proposal, or parts of it: all that is approved, or nothing. */
	async approve(proposal: Proposal, only?: string[]): Promise<Proposal> {
		const path = `/proposals/${encodeURIComponent(proposal.id)}/approve`
		return this.json('POST', path, { token: proposal.token, ...(only ? { only } : {}) })
	}

	/** Makes a call and returns its answer. */
	async json<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
		const answer = await this.#call(method, path, { ...asJSON(body), ...(signal ? { signal } : {}) })
		return (answer.status === 204 ? undefined : await answer.json()) as T
	}

	/** Returns the bytes at a path. */
	async bytes(path: string): Promise<Uint8Array<ArrayBuffer>> {
		return new Uint8Array(await (await this.#call('GET', path, {})).arrayBuffer())
	}

	/** Makes a call with bytes as its body. */
	async put<T>(path: string, body: string | Uint8Array<ArrayBuffer> | Blob): Promise<T> {
		const answer = await this.#call('POST', path, { body, headers: { 'content-type': 'application/octet-stream' } })
		return (await answer.json()) as T
	}

	/** Makes a call and yields the events of its answer. */
	async *events(path: string, body: unknown, signal?: AbortSignal): AsyncGenerator<{ name: string; data: any }> {
		const json = asJSON(body)
		const headers = { ...json.headers, accept: 'text/event-stream' }
		const answer = await this.#call('POST', path, { ...json, headers, ...(signal ? { signal } : {}) })
		if (answer.body) yield* read(answer.body)
	}

	async #call(method: string, path: string, init: RequestInit): Promise<Response> {
		const headers = { ...this.#headers, ...(init.headers as Record<string, string>) }
		const answer = await this.#send(new Request(this.#base + path, { ...init, method, headers }))
		if (answer.ok) return answer
		throw await refusal(answer)
	}

	/** Sends a request, again and for up to a minute where the service had no room and did nothing. */
	async #send(request: Request): Promise<Response> {
		const until = Date.now() + longestWait
		for (let pause = 100; ; pause = Math.min(2 * pause, 2000)) {
			let answer
			try {
				answer = await this.#fetch(request.clone())
			} catch (cause) {
				if (request.signal.aborted) throw cause
				throw new AirlockError({
					code: 'unavailable',
					message: `${this.#base} does not answer`,
					hint: 'nothing says whether the request was carried out; `airlock health` asks the service',
					cause,
				})
			}
			const refused = answer.status === 429 || answer.status === 503
			const room = Number.parseInt(answer.headers.get('retry-after') ?? '', 10)
			// Of a month that is used up it is more than anybody waits for.
			if (!refused || Number.isNaN(room) || Date.now() + 1000 * room > until) return answer
			await answer.body?.cancel()
			await new Promise((resolve) => setTimeout(resolve, pause))
		}
	}

	async #request(code: string, options: Omit<RunOptions, 'signal'>): Promise<RunRequest> {
		const { files, ...rest } = options
		return { language: 'python', code, ...rest, files: await this.#references(files) }
	}

	async #references(files: Record<string, FileContent> = {}): Promise<{ id: string; path: string }[]> {
		return Promise.all(
			Object.entries(files).map(async ([path, content]) => {
				const stored = typeof content === 'object' && 'sha256' in content
				const file = stored ? content : await this.upload(path.split('/').at(-1) || 'file', content)
				return { id: file.id, path }
			}),
		)
	}
}

/** How long a client waits for room, in milliseconds. */
const longestWait = 60_000

function asJSON(body: unknown): { body?: string; headers?: Record<string, string> } {
	return body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
}

async function refusal(answer: Response): Promise<AirlockError> {
	const text = await answer.text()
	try {
		return new AirlockError({ ...JSON.parse(text).error, status: answer.status })
	} catch {
		return new AirlockError({
			code: 'unavailable',
			message: `what answers is no Airlock service: ${answer.status} ${text.slice(0, 200)}`,
			hint: 'look at the address: it is that of the service, without a path',
			status: answer.status,
		})
	}
}
