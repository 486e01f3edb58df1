/** The compiler options of this project, for scripts and tests that compile in memory. */
import ts from 'typescript'

/** Reads tsconfig.json in the working directory. */
export const compilerOptions = (): ts.CompilerOptions => {
  const { config } = ts.readConfigFile('tsconfig.json', ts.sys.readFile) as { readonly config: unknown }
  return ts.parseJsonConfigFileContent(config, ts.sys, process.cwd()).options
}
