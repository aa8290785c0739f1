import { createRequire } from 'node:module'
import { AirlockError } from './errors.js'

/** The path of the command airlock, which a package for this machine has. */
export function command(): string {
	const name = `@airlock-run/${process.platform}-${process.arch}`
	if (process.platform !== 'linux')
		throw new AirlockError({
			code: 'unavailable',
			message: 'programs run on Linux only, and this machine is none',
			hint: "give the address of a service: new Airlock({ server: 'http://host:8000' }), or AIRLOCK_SERVER",
		})
	try {
		return createRequire(import.meta.url).resolve(`${name}/airlock`)
	} catch {
		throw new AirlockError({
			code: 'unavailable',
			message: `the package ${name}, which has the command, is not installed`,
			hint: 'install again, with optional dependencies; there are packages for x64 and arm64',
		})
	}
}
