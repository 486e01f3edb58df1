/** Checks what each package would publish, with publint and attw: part of `npm test`. */
import { spawnSync } from 'node:child_process'
import { PACKAGES } from './kit/workspace.js'

const CHECKS = [
  ['publint', '--strict'],
  ['attw', '--pack', '--profile', 'esm-only', '--quiet'],
]

const failed = PACKAGES.flatMap(({ folder, manifest }) =>
  CHECKS.filter(([command = '', ...args]) => {
    const { status } = spawnSync('npx', [command, ...args], { cwd: folder || '.', stdio: 'inherit' })
    return status !== 0
  }).map(([command]) => `${command} of ${manifest.name}`),
)
process.stdout.write(
  failed.length === 0 ? `${PACKAGES.length} packages are fit to publish\n` : `failed: ${failed.join(', ')}\n`,
)
process.exitCode = failed.length === 0 ? 0 : 1
