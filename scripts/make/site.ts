/**
 * Builds the documentation site into `site/dist`: `npm run make -- site`. Installs the packages of
 * `site` first.
 */
import { execFileSync } from 'node:child_process'

execFileSync('npm', ['ci', '--prefix', 'site', '--no-audit', '--no-fund'], { stdio: 'inherit' })
await import('../../site/build.js')
