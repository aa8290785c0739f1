// Does with E2B's TypeScript SDK what applications do with it; see client.py.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const require = createRequire(process.env.AIRLOCK_SDK + '/package.json')
const load = (name) => import(pathToFileURL(require.resolve(name)))
const { Sandbox } = await load('@e2b/code-interpreter')
const { CommandExitError, NotFoundError, SandboxError, TimeoutError } = await load('e2b')

const s = await Sandbox.create({ envs: { ONE: "it's" }, metadata: { 'a b': 'c&d=ü' }, timeoutMs: 600_000 })

// Code and contexts.
assert.equal((await s.runCode('1 + 1')).text, '2')
const heard = []
const e = await s.runCode("import os, sys; print(os.getcwd(), os.environ['ONE']); print('e', file=sys.stderr)", { onStdout: (m) => heard.push(m.line) })
assert.deepEqual([e.logs.stdout.join(''), e.logs.stderr.join(''), heard.join('')], ["/home/user it's\n", 'e\n', "/home/user it's\n"])
assert.equal((await s.runCode('1 / 0')).error.name, 'ZeroDivisionError')
assert.equal((await s.runCode("print('ü\\u2028' * 20000)")).logs.stdout.join('').length, 40001)
const c = await s.createCodeContext({ language: 'javascript' })
assert.equal((await s.runCode('const q = 20; q + 1', { context: c })).text, '21')
await s.removeCodeContext(c)
await assert.rejects(s.runCode('1', { context: c }), NotFoundError)
assert.equal((await s.runCode("import fs from 'fs'\nconst n: number = 41; n + 1", { language: 'typescript' })).text, '42')
assert.equal((await s.runCode('echo $ONE', { language: 'bash' })).logs.stdout.join(''), "it's\n")
const began = Date.now()
await assert.rejects(s.runCode('import time; time.sleep(100)', { timeoutMs: 1000 }), TimeoutError)
assert.equal((await s.runCode("'still'")).text, 'still') // the one whose client left was interrupted
assert(Date.now() - began < 60_000)

// Commands and terminals.
const r = await s.commands.run('pwd; echo err >&2')
assert.deepEqual([r.stdout, r.stderr, r.exitCode], ['/home/user\n', 'err\n', 0])
await assert.rejects(s.commands.run('exit 3'), (error) => error instanceof CommandExitError && error.exitCode === 3)
const cat = await s.commands.run('cat', { background: true, stdin: true })
await s.commands.sendStdin(cat.pid, 'typed\n')
await s.commands.closeStdin(cat.pid)
assert.equal((await cat.wait()).stdout, 'typed\n')
const sleep = await s.commands.run('sleep 1000', { background: true })
assert((await s.commands.list()).some((p) => p.pid === sleep.pid))
assert.deepEqual([await s.commands.kill(sleep.pid), await s.commands.kill(99999)], [true, false])
await assert.rejects(s.commands.run('sleep 1000', { timeoutMs: 1000 }), TimeoutError)
let shown = ''
const t = await s.pty.create({ cols: 80, rows: 24, onData: (data) => (shown += new TextDecoder().decode(data)) })
await s.pty.resize(t.pid, { cols: 100, rows: 30 })
await s.pty.sendInput(t.pid, new TextEncoder().encode('stty size; exit 4\n'))
await assert.rejects(t.wait(), (error) => error.exitCode === 4)
assert(shown.includes('30 100'), shown)

// Files.
assert.equal((await s.files.write('d/x.txt', 'hällo')).path, '/home/user/d/x.txt')
assert.equal(await s.files.read('/home/user/d/x.txt'), 'hällo')
assert.deepEqual((await s.files.write([{ path: 'd/1', data: '1' }, { path: 'd/2', data: '2' }])).map((w) => w.path), ['/home/user/d/1', '/home/user/d/2'])
assert.deepEqual((await s.files.list('d')).map((f) => f.name).sort(), ['1', '2', 'x.txt'])
assert.deepEqual([await s.files.exists('d/1'), await s.files.exists('none'), await s.files.makeDir('d')], [true, false, false])
await s.files.rename('d/1', 'o/1')
await s.files.remove('o')
await assert.rejects(s.files.read('none'), NotFoundError)
assert.equal(await (await fetch(await s.downloadUrl('d/x.txt'))).text(), 'hällo')
const seen = new Promise((resolve) => s.files.watchDir('d', (event) => event.name === 'seen' && resolve()))
const writing = setInterval(() => s.files.write('d/seen', String(Date.now())), 200)
await seen
clearInterval(writing)

// Its life.
assert.equal(await s.isRunning(), true)
await s.setTimeout(1_000_000)
assert.deepEqual((await s.getInfo()).metadata, { 'a b': 'c&d=ü' })
const page = Sandbox.list({ query: { metadata: { 'a b': 'c&d=ü' } } })
assert((await page.nextItems()).some((i) => i.sandboxId === s.sandboxId))
await assert.rejects(s.pause(), SandboxError)
const same = await Sandbox.connect(s.sandboxId)
assert.equal((await same.runCode("'same'")).text, 'same')
assert.deepEqual([await s.kill(), await Sandbox.kill(s.sandboxId), await s.isRunning()], [true, false, false])
await assert.rejects(s.runCode('1'), TimeoutError)

// Code and commands whose sandbox ends under them.
for (const run of [
  (s, onStdout) => s.runCode('import time; print(1); time.sleep(100)', { onStdout }),
  (s, onStdout) => s.commands.run('echo 1; sleep 100', { onStdout, timeoutMs: 0 }),
]) {
  const s = await Sandbox.create()
  await assert.rejects(run(s, () => s.kill()), (error) => error instanceof TimeoutError && error.message.includes('was killed'))
}
console.log('{}')
process.exit(0) // its connections are kept for more
