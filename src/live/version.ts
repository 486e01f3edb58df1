/** The version of Tandem. */
import { readFileSync } from 'node:fs'

const packageJson: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
/** The version in package.json. */
export const version: string =
  typeof packageJson === 'object' && packageJson !== null && 'version' in packageJson
    ? String(packageJson.version)
    : 'unknown'
