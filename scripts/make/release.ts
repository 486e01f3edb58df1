/**
 * Tries the publication of every package: `npm run make -- release`. With `--publish` it publishes.
 *
 * Compiles all packages, checks what each would publish, and runs `npm publish` in the order of
 * their dependencies, with provenance where the registry's CI provides it. Publishing needs
 * `--repository URL`, which becomes the fields `repository` and `homepage` of every package.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { BUILD_ORDER, buildPackages } from '../kit/build.js'

const { values } = parseArgs({ options: { publish: { type: 'boolean' }, repository: { type: 'string' } } })
if (values.publish === true && values.repository === undefined)
  throw new Error('--publish needs --repository, such as https://github.com/OWNER/NAME')

/** Writes the address of the repository into a package.json. */
const writeRepository = (folder: string, url: string): void => {
  const path = join(folder, 'package.json')
  const manifest = JSON.parse(readFileSync(path, 'utf8')) as object // our own file
  const repository = { type: 'git', url: `git+${url}.git`, ...(folder !== '' && { directory: folder }) }
  const homepage = folder === '' ? `${url}#readme` : `${url}/tree/main/${folder}#readme`
  writeFileSync(path, `${JSON.stringify({ ...manifest, repository, homepage }, undefined, 2)}\n`)
}

if (values.repository !== undefined) for (const { folder } of BUILD_ORDER) writeRepository(folder, values.repository)
buildPackages('.')
execFileSync('npx', ['tsx', 'scripts/package.ts'], { stdio: 'inherit' })
for (const { folder, manifest } of BUILD_ORDER) {
  console.log(`-- ${manifest.name} ${manifest.version}`)
  const args = ['publish', '--ignore-scripts', ...(values.publish === true ? [] : ['--dry-run'])]
  execFileSync('npm', args, { cwd: folder || '.', stdio: 'inherit' })
}
