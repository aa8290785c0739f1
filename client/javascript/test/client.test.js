// Against a service that AIRLOCK_SERVER names, with what `npm run build` has made.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { Airlock, AirlockError, RunFailed, check, stdoutOf } from '../dist/index.js'

const airlock = new Airlock()
const text = (bytes) => new TextDecoder().decode(bytes)

test('files go in and come out', async () => {
	const stored = await airlock.upload('s.txt', 'stored')
	const files = { 'in/a.csv': 'a,b\n', 's.txt': stored, 'b.bin': new Uint8Array([65]) }
	const code = "print(open('in/a.csv').read(), open('s.txt').read(), open('b.bin').read()); open('out.txt', 'w').write('é')"
	const run = check(await airlock.run(code, { files }))
	assert.equal(run.stdout, 'a,b\n stored A\n')
	assert.deepEqual(run.files.map((f) => f.path), ['out.txt'])
	assert.equal(text(await airlock.read(run.files[0])), 'é')
})

test('failures have hints', async () => {
	const run = await airlock.run('import nosuchmodule')
	assert.throws(() => check(run), (e) => e instanceof RunFailed && /nosuchmodule/.test(e.hint) && e.result === run)
	await assert.rejects(airlock.run('', { language: 'klingon' }), (e) => e instanceof AirlockError && e.code === 'invalid')
	await assert.rejects(airlock.getSession('BXqTkJ1mEw0vYb7RfLhZ2'), { code: 'not_found', status: 404 })
	await assert.rejects(new Airlock({ server: 'http://127.0.0.1:1' }).run('1'), { code: 'unavailable', message: /does not answer/ })
	assert.equal((await airlock.run('while True: pass', { timeout_ms: 300 })).status, 'timeout')
})

test('events of a run', async () => {
	let said = ''
	let last
	for await (const event of airlock.stream('for i in range(3): print(i, flush=True)')) {
		if (event.type === 'output') said += event.text
		last = event
	}
	assert.equal(said, '0\n1\n2\n')
	assert.equal(last.run.status, 'ok')
	for await (const event of airlock.stream('while True: pass', { timeout_ms: 60_000 })) {
		assert.equal(event.type, 'started')
		break // which ends the program
	}
	assert.equal((await airlock.run('print(1)', { signal: AbortSignal.timeout(30_000) })).status, 'ok')
	await assert.rejects(airlock.run('while True: pass', { signal: AbortSignal.timeout(200) }), { name: 'TimeoutError' })
})

test('a session', async () => {
	const session = await airlock.session({ files: { 'given.txt': 'g' } })
	check(await session.cell('x = 41'))
	assert.equal((await session.cell('x + 1')).outputs[0].data['text/plain'], '42')
	assert.equal(stdoutOf(await session.cell("print('said')")), 'said\n')
	const failed = await session.cell('1/0')
	assert.throws(() => check(failed), /ZeroDivisionError: division by zero/)
	await session.files.write('d/a.txt', 'text')
	assert.equal(text(await session.files.read('d/a.txt')), 'text')
	await session.files.move('d/a.txt', 'b.txt')
	await session.files.remove('d', true)
	assert.deepEqual((await session.files.list()).map((e) => e.path), ['b.txt', 'given.txt'])
	const types = []
	for await (const event of session.stream("print('hello', input('name? ')); 1", { input: true })) {
		types.push(event.type)
		if (event.type === 'input') await session.answer('Ada')
	}
	assert.deepEqual(types.filter((t) => t !== 'stdout'), ['started', 'input', 'result', 'done'])
	const copies = await session.fork(2)
	const other = await airlock.session({ snapshot: (await session.snapshot()).id })
	for (const one of [...copies, other]) {
		assert.deepEqual((await one.files.list()).map((e) => e.path), ['b.txt', 'given.txt'])
		await one.delete()
	}
	await session.restart()
	assert.equal((await (await airlock.getSession(session.id)).cell('x')).status, 'error')
	await session.delete()
})

test('fifty runs at once', async () => {
	const runs = await Promise.all(Array.from({ length: 50 }, (_, i) => airlock.run(`print(${i})`)))
	assert.deepEqual(runs.map((r) => r.stdout), Array.from({ length: 50 }, (_, i) => `${i}\n`))
})

/** A service that gives its answers in turn. */
async function serving(answers, then) {
	const server = createServer((_, response) => {
		const [status, headers, body] = answers.length > 1 ? answers.shift() : answers[0]
		response.writeHead(status, headers).end(body)
	})
	await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
	try {
		await then(new Airlock({ server: `http://127.0.0.1:${server.address().port}` }))
	} finally {
		server.close()
	}
}

test('waits for room', async () => {
	const busy = [429, { 'retry-after': '1' }, '{"error":{"code":"busy","message":"m","hint":"h","request_id":"r"}}']
	await serving([busy, busy, [200, {}, '{"status":"ok"}']], async (a) => assert.equal((await a.run('1')).status, 'ok'))
	await serving([[429, {}, busy[2]]], (a) => assert.rejects(a.run('1'), { code: 'busy', hint: 'h', requestId: 'r' }))
	const spent = [429, { 'retry-after': '3600' }, '{"error":{"code":"quota_exceeded","message":"m","request_id":"r"}}']
	const began = Date.now()
	await serving([spent], (a) => assert.rejects(a.run('1'), { code: 'quota_exceeded' }))
	assert.ok(Date.now() - began < 10_000)
	await serving([[502, {}, '<html>']], (a) => assert.rejects(a.run('1'), /no Airlock service: 502 <html>/))
})
