import type { Cell, Run } from './schema.js'

/** What the service refused, or why it could not be reached. */
export class AirlockError extends Error {
	/** A code of the API, as `not_found`. */
	readonly code: string
	/** What to do, where there is something to do. */
	readonly hint: string
	readonly status: number
	readonly requestId: string

	constructor(e: { code: string; message: string; hint?: string; status?: number; request_id?: string; cause?: unknown }) {
		super(e.message, e.cause ? { cause: e.cause } : undefined)
		this.name = 'AirlockError'
		this.code = e.code
		this.hint = e.hint ?? ''
		this.status = e.status ?? 0
		this.requestId = e.request_id ?? ''
	}
}

/** A program or a cell that did not end well. */
export class RunFailed extends AirlockError {
	readonly result: Run | Cell

	constructor(message: string, result: Run | Cell) {
		super({ code: result.status, message, ...(result.hint ? { hint: result.hint } : {}) })
		this.name = 'RunFailed'
		this.result = result
	}
}
