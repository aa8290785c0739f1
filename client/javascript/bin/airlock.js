#!/usr/bin/env node
// Runs the command of the package for this machine, in place of this process as far as Node can.
import { spawn } from 'node:child_process'
import { command } from '../dist/command.js'

let path
try {
	path = command()
} catch (error) {
	console.error(`error: ${error.message}\nhint: ${error.hint}`)
	process.exit(1)
}
const child = spawn(path, process.argv.slice(2), { stdio: 'inherit' })
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('error', (error) => {
	console.error(`error: ${path} cannot be run: ${error.message}`)
	process.exit(126)
})
child.on('exit', (code, signal) => {
	if (!signal) process.exit(code)
	process.removeAllListeners(signal)
	process.kill(process.pid, signal)
})
