package linux

// nodeBehaviours are programs whose behavior must not depend on whether Node has waited
// for them.
var nodeBehaviours = map[string]string{
	// What a program is.
	"argv": "console.log(process.argv, process.argv0, process.execArgv, process.execPath, process.title)",
	"file": "console.log(__filename, __dirname, process.cwd(), require.main === module, module.id, " +
		"module.filename, module.paths)",
	"this": "console.log(this === module.exports, typeof globalThis.require, arguments.length, " +
		"Object.keys(globalThis))",
	"cache":       "console.log(Object.keys(require.cache), module.children, module.parent, require.main.filename)",
	"environment": "console.log(process.env)\nrequire('child_process').execSync('env | sort', { stdio: 'inherit' })",
	"set environment": "process.env.NEW = 'a'; delete process.env.USER\n" +
		"console.log(require('child_process').execSync('echo $NEW-$USER').toString())",
	"process": "console.log(process.pid, process.ppid, process.getuid() > 0, process.umask(), " +
		"process.exitCode, process.version, process.uptime() < 5)",
	"command line": "const fs = require('fs')\nconsole.log(fs.readFileSync('/proc/self/comm', 'utf8'), " +
		"fs.readFileSync('/proc/self/cmdline', 'utf8').split('\\0').slice(0, 4))",
	"open files": "const fs = " +
		"require('fs')\nconsole.log('one')\nconsole.log(fs.readdirSync('/proc/self/fd').length, fs.openSync('main.js'), " +
		"[0, 1, 2].map(n => fs.readFileSync('/proc/self/fdinfo/' + n, 'utf8').match(/flags:.*/)[0]))",
	"kinds of files": "const fs = require('fs')\nconsole.log([0, 1, 2].map(n => fs.fstatSync(n)).map(s => " +
		"[s.isFile(), s.isFIFO(), s.isCharacterDevice()]), process.stdin.constructor.name, " +
		"process.stdout.constructor.name, process.stdout.isTTY)",
	"limits": "console.log(require('child_process').execSync('ulimit -a; cat /proc/self/status | grep -E " +
		"\"Sig[^Q]|Seccomp|NoNew|Cap|Groups\"', { shell: '/bin/bash' }).toString())",
	"listeners": "console.log(process.eventNames(), process._getActiveHandles().length, " +
		"process._getActiveRequests().length, process.getActiveResourcesInfo())",
	"asynchronous ids": "const a = require('async_hooks')\nconsole.log(a.executionAsyncId(), a.triggerAsyncId(), new " +
		"a.AsyncResource('x').asyncId())\nsetTimeout(() => console.log(a.executionAsyncId()), 1)",
	"printed timer":   "const t = setTimeout(() => {}, 1)\nt._idleStart = 0\nconsole.log(t)",
	"hash bang":       "#!/usr/bin/env node\nconsole.log('run')",
	"byte order mark": "\ufeffconsole.log('marked')",
	"strict":          "'use strict'\nconsole.log((function () { return this })())",
	"sloppy":          "x = 5\nconsole.log(globalThis.x)",
	"empty":           "",
	"globals": "console.log(typeof fetch, typeof structuredClone, typeof navigator, typeof performance.now(), " +
		"typeof crypto)",
	"heap limit": "console.log(require('v8').getHeapStatistics().heap_size_limit, require('os').totalmem() > 0, " +
		"process.constrainedMemory?.())",
	"time zone": "console.log(new Date(0).toString(), Intl.DateTimeFormat().resolvedOptions().timeZone, new " +
		"Date(0).toLocaleString())",

	// What it imports.
	"require beside": "require('fs').writeFileSync('a.js', 'exports.x = __filename')\n" +
		"console.log(require('./a').x, require('/workspace/a.js').x, require.resolve('./a'))",
	"require json":    "require('fs').writeFileSync('d.json', '{\"a\": [1]}')\nconsole.log(require('./d.json'))",
	"require missing": "require('./nowhere')",
	"require package": "const fs = require('fs')\nfs.mkdirSync('node_modules/p', { recursive: true })\n" +
		"fs.writeFileSync('node_modules/p/package.json', '{\"main\": \"m.js\"}')\n" +
		"fs.writeFileSync('node_modules/p/m.js', 'module.exports = 7')\nconsole.log(require('p'))",
	"dynamic import": "import('fs').then(m => console.log(typeof m.readFileSync))",
	"import": "import fs, { readFileSync } from 'fs'\nimport path from 'node:path'\n" +
		"console.log(fs.readFileSync === readFileSync, path.basename(import.meta.url))",
	"import beside": "import fs from 'fs'\nfs.writeFileSync('b.mjs', 'export default import.meta.url')\n" +
		"console.log((await import('./b.mjs')).default)",
	"import json": "import fs from 'fs'\nfs.writeFileSync('d.json', '{\"a\": 1}')\n" +
		"console.log((await import('./d.json', { with: { type: 'json' } })).default)",
	"import and require": "import os from 'os'\nconst path = require('path')\n" +
		"console.log(typeof os.cpus, path.sep, __filename, __dirname)",
	"await":          "const x = await Promise.resolve(4)\nconsole.log(x)\nexport {}",
	"never settles":  "await new Promise(() => {})\nexport {}",
	"import missing": "import x from './nowhere.mjs'",

	// How it fails.
	"error":                "function f() {\n  throw new TypeError('no')\n}\nf()",
	"error in a module":    "import 'fs'\nfunction f() { throw new Error('no') }\nf()",
	"thrown value":         "throw { a: 1 }",
	"cause":                "throw new Error('a', { cause: new RangeError('b') })",
	"syntax error":         "console.log('never')\nlet = = 3",
	"reference error":      "console.log(nothing)",
	"rejection":            "Promise.reject(new Error('late'))",
	"rejection of a value": "Promise.reject(5)\nsetTimeout(() => console.log('never'), 100)",
	"late error":           "setTimeout(() => { throw new Error('late') }, 1)",
	"stack": "console.log(new Error('here').stack)\nsetTimeout(function t() { console.log(new " +
		"Error('there').stack) }, 1)\nPromise.resolve().then(() => console.log(new Error('then').stack))",
	"deep": "function f() { f() }\ntry { f() } catch (e) { console.log(e instanceof RangeError, " +
		"e.message) }",
	"uncaught handler": "process.on('uncaughtException', (e, o) => console.log('caught', e.message, o))\n" +
		"setTimeout(() => console.log('on'), 5)\nthrow new Error('x')",
	"warning":        "process.emitWarning('careful')\nnew Buffer(1)\nconsole.log('on')",
	"old binding":    "process.binding('fs')\nconsole.log('on')",
	"many listeners": "for (let i = 0; i < 12; i++) process.on('x', () => {})",
	"abort":          "process.abort()",

	// How it ends.
	"exit":      "console.log('a')\nprocess.exit(7)",
	"exit code": "process.exitCode = 3\nconsole.log('on')",
	"exit handlers": "process.on('exit', c => console.log('exit', c))\n" +
		"process.on('beforeExit', c => console.log('before', c))\nprocess.exitCode = 4",
	"exit in exit": "process.on('exit', () => process.exit(9))",
	"exit handler": "process.on('exit', c => console.log('exit', c))\nthrow new Error('x')",
	"kept going":   "let n = 0\nprocess.on('beforeExit', () => { if (n++ < 2) setImmediate(() => console.log(n)) })",
	"terminate":    "process.kill(process.pid, 'SIGTERM')\nsetTimeout(() => {}, 5000)",
	"signal handler": "process.on('SIGUSR2', s => { console.log(s); clearInterval(t) })\n" +
		"const t = setInterval(() => {}, 1000)\nprocess.kill(process.pid, 'SIGUSR2')",
	"kill": "process.kill(process.pid, 'SIGKILL')\nfor (;;);",
	"interrupt": "process.on('SIGINT', () => { console.log('int'); process.exit(2) })\n" +
		"process.kill(process.pid, 'SIGINT')\nsetTimeout(() => {}, 5000)",

	// What it reads and writes.
	"stdin":      "console.log(JSON.stringify(require('fs').readFileSync(0, 'utf8')))",
	"stdin path": "console.log(JSON.stringify(require('fs').readFileSync('/dev/stdin', 'utf8')))",
	"stdin events": "let s = ''\nprocess.stdin.setEncoding('utf8').on('data', d => s += d).on('end', () => " +
		"console.log(JSON.stringify(s)))",
	"stdin lines": "require('readline').createInterface({ input: process.stdin }).on('line', l => console.log('>', " +
		"l)).on('close', () => console.log('closed'))",
	"stdin iterator": "for await (const c of process.stdin) console.log(c.toString())\nexport {}",
	"stdin pipe":     "process.stdin.pipe(process.stdout)",
	"stdin transform": "const { Transform, pipeline } = require('stream')\n" +
		"pipeline(process.stdin, new Transform({ transform(c, e, f) { f(null, c.toString().toUpperCase()) } }), " +
		"process.stdout, e => console.error(e ?? 'fine'))",
	"output": "process.stdout.write('a'); console.error('b'); console.log({ a: [1, { b: new Map([[1, 2]]) }] " +
		"}); console.table([{ a: 1 }]); console.dir([1]); console.group('g'); console.log('in')",
	"big output":       "console.log('x'.repeat(3000000))",
	"big output, exit": "process.stdout.write('x'.repeat(60000)); process.exit(0)",
	"write back": "console.log(process.stdout.write('a', () => console.log('written')), " +
		"process.stdout.writableHighWaterMark, process.stdout._type, process.stdout.fd)",
	"write by number": "require('fs').writeSync(1, 'one\\n'); require('fs').writeFileSync('/dev/stderr', 'two\\n')",
	"closed stdout":   "require('fs').closeSync(1)\nconsole.log('nowhere')",
	"colours": "console.log(process.stdout.hasColors?.(), process.stderr.getColorDepth?.(), " +
		"require('util').inspect({ a: 1 }, { colors: true }))",
	"files": "const fs = require('fs')\nfs.writeFileSync('out.txt', 'kept'); fs.mkdirSync('d'); " +
		"fs.writeFileSync('d/e', '')\nconsole.log(fs.readdirSync('.'), fs.statSync('out.txt').mode.toString(8))",
	"own files": "const fs = require('fs')\nfor (const n of [0x6e6f6465, 60, 59]) try { fs.ftruncateSync(n, 1); " +
		"console.log('cut') } catch (e) { console.log(e.code === 'ENOSYS' || e.code === 'EBADF') }",
	"cut": "const fs = require('fs')\nfs.writeFileSync('f', 'abcdef'); fs.truncateSync('f', 2); " +
		"console.log(fs.readFileSync('f', 'utf8'))",
	"temporary": "const os = require('os'), fs = require('fs')\nconsole.log(os.tmpdir(), os.homedir(), " +
		"fs.readdirSync('/tmp').filter(n => n !== 'matplotlib'), fs.existsSync(fs.mkdtempSync(os.tmpdir() + '/x')))",

	// What it does in time.
	"order": "setTimeout(() => console.log('timeout'), 300); setImmediate(() => console.log('immediate')); " +
		"process.nextTick(() => console.log('tick')); Promise.resolve().then(() => console.log('then')); queueMicrotask(() " +
		"=> console.log('micro')); console.log('now')",
	"timers": "let n = 0; const i = setInterval(() => { console.log(++n); " +
		"if (n === 3) { clearInterval(i); late() } }, 5)\n" +
		"function late() { const t = Date.now(); setTimeout(() => console.log(Date.now() - t >= 199), 200) }",
	"promises": "const { setTimeout: s } = require('timers/promises')\n" +
		"Promise.race([s(500, 'slow'), s(5, 'fast')]).then(v => { console.log(v); process.exit() })",
	"hooks": "const seen = []\nrequire('async_hooks').createHook({ init: (id, type) => seen.push(id, type) " +
		"}).enable()\nsetTimeout(() => {}, 1); Promise.resolve().then(() => {})\n" +
		"process.on('exit', () => require('fs').writeSync(1, seen.join() + '\\n'))",
	"storage": "const { AsyncLocalStorage } = require('async_hooks')\nconst s = new AsyncLocalStorage()\n" +
		"s.run(5, () => setTimeout(() => console.log(s.getStore()), 1))",
	"weak":      "const w = new WeakRef({})\nsetTimeout(() => console.log(typeof w.deref()), 1)",
	"generator": "async function* g() { yield 1; yield 2 }\n(async () => { for await (const x of g()) console.log(x) })()",

	// Whom it brings along.
	"worker": "const { Worker, isMainThread, parentPort, workerData, threadId } = require('worker_threads')\n" +
		"if (isMainThread) new Worker(__filename, { workerData: 3, argv: ['w'] }).on('message', m => " +
		"console.log(m)).on('exit', c => console.log(c))\nelse parentPort.postMessage([workerData, threadId, " +
		"process.argv.slice(2), require.main === module])",
	"worker error": "const { Worker } = require('worker_threads')\nnew Worker('throw new Error(\"in\")', { eval: true " +
		"}).on('error', e => console.log(e.message))",
	"worker fails": "const { Worker } = require('worker_threads')\nnew Worker('process.exit(3)', { eval: true " +
		"}).on('exit', c => process.exit(c))",
	"exec": "const c = require('child_process')\nconsole.log(c.execSync('echo hi; pwd').toString(), " +
		"c.spawnSync('sh', ['-c', 'exit 3']).status)\nc.exec('echo later', (e, o) => console.log(o))",
	"spawn": "const p = require('child_process').spawn('cat')\n" +
		"p.stdout.on('data', d => console.log('' + d)); p.on('close', (c, s) => console.log(c, s)); p.stdin.end('through')",
	"spawn inherit": "require('child_process').spawnSync('sh', ['-c', 'cat; echo err >&2'], { stdio: 'inherit' })",
	"child files": "console.log(require('child_process')." +
		"execFileSync('/bin/sh', ['-c', 'ls /proc/self/fd']).toString())",
	"fork": "const c = require('child_process')\nif (process.argv[2] === 'child') " +
		"process.send(process.execArgv, () => process.exit(5))\nelse c.fork(__filename, ['child']).on('message', m => " +
		"console.log(m)).on('exit', e => console.log(e))",
	"itself": "const c = require('child_process')\nconsole.log(c.execFileSync(process.execPath, ['-p', '1 + " +
		"1']).toString(), c.spawnSync(process.execPath, [...process.execArgv, '-e', " +
		"'console.log(process.argv.length)']).stdout.toString())",
	"left behind": "require('child_process').spawn('sleep', ['60'], { detached: true, stdio: 'ignore' }).unref()\n" +
		"console.log('gone')",
	"server": "const http = require('http')\nconst s = http.createServer((q, r) => r.end('hi')).listen(0, () => " +
		"http.get({ port: s.address().port, agent: false }, r => r.on('data', d => { console.log('' + d); s.close() })))",
	"fetch": "const http = require('http')\nconst s = http.createServer((q, r) => r.end('hi')).listen(0, " +
		"'127.0.0.1', async () => { console.log(await (await fetch('http://127.0.0.1:' + s.address().port)).text()); " +
		"process.exit() })",
	"compression": "const z = require('zlib')\nconsole.log(z.gunzipSync(z.gzipSync('abc')).toString(), " +
		"require('crypto').createHash('sha256').update('a').digest('hex'))",
	"vm":     "console.log(require('vm').runInNewContext('a + 1', { a: 2 }))",
	"source": "console.log(require('fs').readFileSync(__filename, 'utf8').length, (() => 5).toString())",
}

// typescripts are the same in TypeScript.
var typescripts = map[string]string{
	"types": "interface A { x: number }\nenum C { R, G }\nconst a: A = { x: C.G }\n" +
		"console.log(a.x, process.argv, process.execArgv, __filename, import.meta.url)",
	"await":         "const x: number = await Promise.resolve(4)\nconsole.log(x)",
	"error":         "function f(n: number): never {\n  throw new Error('no ' + n)\n}\n\nf(1)",
	"compile error": "const a = 1\nconst b: number = ;",
	"stdin":         "import { readFileSync } from 'fs'\nconsole.log(readFileSync(0, 'utf8'))",
	"exit":          "process.on('exit', c => console.log(c))\nprocess.exit(3 as number)",
	"left": "import { readdirSync, writeFileSync } from 'fs'\nwriteFileSync('o', '')\n" +
		"console.log(readdirSync('.'), readdirSync('/tmp/.build'))",
	"listeners": "console.log(process.eventNames(), process.getActiveResourcesInfo())",
	"asynchronous ids": "import a from 'async_hooks'\nconsole.log(a.executionAsyncId(), a.triggerAsyncId(), " +
		"new a.AsyncResource('x').asyncId())\nsetTimeout(() => console.log(a.executionAsyncId()), 1)",
	"loaded": "console.log(Object.keys(require.cache), Object.keys(globalThis))",
	"import": "const m = await import('data:text/javascript,export default import.meta.url')\n" +
		"console.log(m, await import('./none.mjs').catch((e: Error) => e.message), import.meta)",
	"rejection": "process.on('exit', c => console.log(c))\nPromise.reject(new Error('no'))",
	"child": "import { execSync } from 'child_process'\nconsole.log(execSync('echo hi; ls " +
		"/proc/self/fd').toString())",
}
