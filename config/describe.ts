/** The list of settings as text: the example file and the table of `trunkline settings`. */
import { defaultText, environmentName, settingsList } from './settings.js';

export interface SettingDescription {
  name: string;
  env: string;
  default: string;
  /** The default as written in the file; null when there is none or it is computed. */
  literal: string | null;
  kind: string;
  unit: string | null;
  allowed: string;
  explain: string;
  secret: boolean;
  readBy: string;
}

export function describeSettings(): SettingDescription[] {
  return settingsList.map((definition) => ({
    name: definition.name,
    env: environmentName(definition.name),
    default: defaultText(definition),
    literal: typeof definition.default === 'string' ? definition.default : null,
    kind: definition.kind.name,
    unit: definition.unit ?? null,
    allowed: definition.kind.allowed,
    explain: definition.explain,
    secret: definition.secret === true,
    readBy: definition.readBy,
  }));
}

/** `config/trunkline.example.yaml`. */
export function exampleYaml(): string {
  const parts = [
    '# Settings of Trunkline. Copy to ./trunkline.yaml and uncomment the lines you change.',
    '# An environment variable overrides each of them: TRUNKLINE_ and the name in capitals.',
    '# Generated from config/settings.ts: trunkline settings --example',
  ];
  for (const line of describeSettings()) {
    parts.push(
      '',
      `# ${line.explain}`,
      `# Allowed: ${line.allowed}. Default: ${line.default}${line.literal !== null && line.unit ? ` ${line.unit}` : ''}.`.replace(
        /\.\.$/,
        '.',
      ),
      `#${line.name}:${line.literal === null ? '' : ` ${line.literal}`}`,
    );
  }
  return `${parts.join('\n')}\n`;
}
