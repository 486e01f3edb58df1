/**
 * Writes docs/api, the report of the public surface that `npm test` compares with the sources:
 * `npm run make -- api`.
 */
import { readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { publicProgram, publicSurface, REPORT, reportFile, reportOf } from '../kit/publicSurface.js'

for (const file of readdirSync(REPORT)) rmSync(join(REPORT, file))
for (const [door, names] of publicSurface(publicProgram())) writeFileSync(reportFile(door), reportOf(door, names))
