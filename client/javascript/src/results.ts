import { RunFailed } from './errors.js'
import type { Cell, Run } from './schema.js'

/** Returns a run or a cell, or throws RunFailed with what it said last if it did not end well. */
export function check<T extends Run | Cell>(result: T): T {
	if (result.status === 'ok') return result
	const said =
		result.message ??
		('outputs' in result
			? result.outputs.flatMap((o) => (o.type === 'error' ? [`${o.name}: ${o.value}`] : [])).join('')
			: result.stderr.trim().slice(-2000))
	throw new RunFailed(`it ended with status ${result.status}${said ? `: ${said}` : ''}`, result)
}

/** What a cell has printed. */
export function stdoutOf(cell: Cell): string {
	return cell.outputs.flatMap((o) => (o.type === 'stdout' ? [o.text ?? ''] : [])).join('')
}
