// What must compile, and what must not: `npm run check`.
import { Airlock, check, type Run, Session } from '../src/index.js'

export async function compiles(airlock: Airlock): Promise<void> {
	const run: Run = check(await airlock.run('print(1)', { language: 'python', files: { 'a.csv': 'x' }, timeout_ms: 1000 }))
	run.files satisfies { path: string }[]
	// @ts-expect-error there is no such wall
	await airlock.run('', { wall: 'brick' })
	// @ts-expect-error a run has no such field
	run.result
	await using session = await airlock.session({ language: 'bash' })
	session satisfies Session
	for await (const event of session.stream('')) {
		if (event.type === 'stdout') event.output.text satisfies string | undefined
		// @ts-expect-error only started and done have the cell
		else event.cell
	}
	const { data, error } = await airlock.api.GET('/runs/{id}', { params: { path: { id: run.id } } })
	data?.stdout satisfies string | undefined
	error?.error.code satisfies string | undefined
}
