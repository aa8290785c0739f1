import { EventSourceParserStream } from 'eventsource-parser/stream'
import type { Cell, CellOutput, Run } from './schema.js'

/** Something that a program did. The last event has the run that has ended. */
export type RunEvent =
	| { type: 'started'; run: Run }
	| { type: 'output'; stream: 'stdout' | 'stderr'; text: string }
	| { type: 'result'; run: Run }

/** Something that a cell did. The last event has the cell that has ended, without its outputs. */
export type CellEvent =
	| { type: 'started' | 'done'; cell: Cell }
	| { type: 'input'; prompt: string }
	| { type: 'stdout' | 'stderr' | 'display' | 'result' | 'error'; output: CellOutput }

/** Yields the names and data of a stream of events. */
export async function* read(body: ReadableStream<Uint8Array>): AsyncGenerator<{ name: string; data: any }> {
	const decoded = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>)
	const reader = decoded.pipeThrough(new EventSourceParserStream()).getReader()
	try {
		for (;;) {
			const { done, value } = await reader.read()
			if (done) return
			yield { name: value.event ?? 'message', data: JSON.parse(value.data) }
		}
	} finally {
		await reader.cancel() // a caller that leaves ends the program
	}
}

export function runEvent(name: string, data: any): RunEvent {
	if (name === 'output') return { type: 'output', stream: data.stream, text: data.data }
	return { type: name as 'started' | 'result', run: data }
}

export function cellEvent(name: string, data: any): CellEvent {
	if (name === 'started' || name === 'done') return { type: name, cell: data }
	if (name === 'input') return { type: 'input', prompt: data.prompt ?? '' }
	return { type: name as CellOutput['type'] & {}, output: { ...data, type: name } }
}
