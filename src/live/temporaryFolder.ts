/** Folders of the system for files that only live as long as a process needs them. */
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Makes an empty folder whose name begins with `tandem-` and a word. Effects: a folder that the caller removes. */
export const temporaryFolder = (word: string): Promise<string> => mkdtemp(join(tmpdir(), `tandem-${word}-`))
