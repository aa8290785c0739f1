import type { Airlock } from './client.js'
import { type CellEvent, cellEvent } from './events.js'
import type { Cell, CellRequest, Entry, Session as Info, Snapshot } from './schema.js'

/** A cell's options: fields of the API's CellRequest. */
export type CellOptions = Partial<Omit<CellRequest, 'code' | 'wait'>> & { signal?: AbortSignal }

/** An interpreter with variables that stay, in a workspace with files. */
export class Session implements AsyncDisposable {
	readonly id: string
	readonly files: Folder
	readonly #path: string

	constructor(
		readonly airlock: Airlock,
		readonly info: Info,
	) {
		this.id = info.id
		this.#path = `/sessions/${encodeURIComponent(info.id)}`
		this.files = new Folder(airlock, `${this.#path}/fs`)
	}

	/** Runs code and returns when it has ended. */
	async cell(code: string, options: CellOptions = {}): Promise<Cell> {
		const { signal, ...rest } = options
		return this.airlock.json('POST', `${this.#path}/cells`, { code, ...rest }, signal)
	}

	/** Runs code and yields its outputs as they happen. The last event has the cell. */
	async *stream(code: string, options: CellOptions = {}): AsyncGenerator<CellEvent, void, void> {
		const { signal, ...rest } = options
		for await (const { name, data } of this.airlock.events(`${this.#path}/cells`, { code, ...rest }, signal)) {
			yield cellEvent(name, data)
			if (name === 'done') return
		}
	}

	/** Answers what the running cell asks for, if it was made with `input: true`. */
	async answer(text: string): Promise<void> {
		await this.airlock.json('POST', `${this.#path}/input`, { text })
	}

	/** Interrupts the running cell, as Ctrl-C does. */
	async interrupt(): Promise<void> {
		await this.airlock.json('POST', `${this.#path}/interrupt`)
	}

	/** Ends the interpreter and all processes. Files stay. */
	async restart(): Promise<void> {
		await this.airlock.json('POST', `${this.#path}/restart`)
	}

	/** Makes copies of the session, all or none. */
	async fork(count = 1): Promise<Session[]> {
		const made = await this.airlock.json<{ sessions: Info[] }>('POST', `${this.#path}/fork`, { count })
		return made.sessions.map((info) => new Session(this.airlock, info))
	}

	/** Makes a snapshot, of which `airlock.session({ snapshot })` makes sessions. */
	async snapshot(name?: string): Promise<Snapshot> {
		return this.airlock.json('POST', `${this.#path}/snapshots`, name ? { name } : {})
	}

	/** Deletes the session and its workspace. */
	async delete(): Promise<void> {
		await this.airlock.json('DELETE', this.#path)
	}

	/** Deletes the session at the end of a block with `await using`. */
	async [Symbol.asyncDispose](): Promise<void> {
		await this.delete()
	}
}

/** The workspace of a session. Paths are relative to it. */
export class Folder {
	constructor(
		readonly airlock: Airlock,
		readonly path: string,
	) {}

	/** Makes or replaces a file: all of it, or nothing. When it returns, the file is stored. */
	async write(path: string, content: string | Uint8Array<ArrayBuffer> | Blob): Promise<Entry> {
		return this.airlock.put(this.#at('write', { path }), content)
	}

	/** Returns the content of a file. */
	async read(path: string): Promise<Uint8Array<ArrayBuffer>> {
		return this.airlock.bytes(this.#at('read', { path }))
	}

	/** Returns what is in a folder, down to a depth. */
	async list(path = '', depth = 1): Promise<Entry[]> {
		return (await this.airlock.json<{ entries: Entry[] }>('GET', this.#at('list', { path, depth }))).entries
	}

	/** Renames a file or a folder. */
	async move(from: string, to: string, replace = false): Promise<Entry> {
		return this.airlock.json('POST', this.#at('move', { from, to, replace }))
	}

	/** Removes a file, or a folder with all that is in it. */
	async remove(path: string, recursive = false): Promise<void> {
		await this.airlock.json('POST', this.#at('remove', { path, recursive }))
	}

	#at(verb: string, query: Record<string, string | number | boolean>): string {
		return `${this.path}/${verb}?${new URLSearchParams(Object.entries(query).map(([k, v]) => [k, String(v)]))}`
	}
}
