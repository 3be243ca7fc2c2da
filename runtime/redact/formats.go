package redact

// knownFormats is the table of secrets that are known by their look. A keyword
// must be rare in ordinary text: it is all that is searched for; the rest of
// the row is looked at only behind one.
func knownFormats() []format {
	return []format{
		{kind: "github-token", before: alone, keywords: words("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), match: atLeast(36, &classWord)},
		{kind: "github-token", before: alone, keywords: words("github_pat_"), match: atLeast(40, &classWord)},
		{kind: "gitlab-token", before: alone, keywords: words("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glsoat-", "glft-", "glagent-"), match: atLeast(20, &classURL64)},
		{kind: "aws-access-key", before: alone, keywords: words("AKIA", "ASIA", "ABIA", "ACCA"), match: exactly(16, &classUpper2)},
		{kind: "aws-secret-key", keep: true, keywords: words("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "SecretAccessKey", "secretAccessKey"), match: assigned(exactly(40, &classStd64))},
		{kind: "aws-session-token", keep: true, keywords: words("aws_session_token", "AWS_SESSION_TOKEN", "SessionToken", "sessionToken"), match: assigned(atLeast(64, &classStd64))},
		{kind: "gcp-api-key", before: alone, keywords: words("AIza"), match: atLeast(35, &classURL64)},
		{kind: "gcp-oauth-token", before: alone, keywords: words("ya29."), match: atLeast(20, &classDotted)},
		{kind: "gcp-oauth-secret", before: alone, keywords: words("GOCSPX-"), match: atLeast(24, &classURL64)},
		{kind: "azure-storage-key", keep: true, keywords: words("AccountKey="), match: atLeast(60, &classStd64)},
		{kind: "slack-token", before: alone, keywords: words("xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxo-", "xoxe.", "xoxe-", "xapp-"), match: mixed(10, &classDotted)},
		{kind: "slack-webhook", keywords: words("hooks.slack.com/services/"), match: mixed(24, &classDashed)},
		{kind: "stripe-key", before: alone, keywords: words("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"), match: atLeast(16, &classAlnum)},
		{kind: "anthropic-key", before: alone, keywords: words("sk-ant-"), match: mixed(20, &classURL64)},
		{kind: "openai-key", before: alone, keywords: words("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"), match: mixed(20, &classURL64)},
		{kind: "openai-key", before: alone, keywords: words("sk-"), match: mixed(40, &classAlnum)},
		{kind: "openrouter-key", before: alone, keywords: words("sk-or-v1-"), match: atLeast(32, &classHex)},
		{kind: "groq-key", before: alone, keywords: words("gsk_"), match: mixed(32, &classAlnum)},
		{kind: "xai-key", before: alone, keywords: words("xai-"), match: mixed(40, &classAlnum)},
		{kind: "huggingface-token", before: alone, keywords: words("hf_", "api_org_"), match: mixed(30, &classAlnum)},
		{kind: "npm-token", before: alone, keywords: words("npm_"), match: mixed(36, &classAlnum)},
		{kind: "npm-token", keep: true, keywords: words("_authToken="), match: mixed(20, &classToken)},
		{kind: "pypi-token", before: alone, keywords: words("pypi-AgE"), match: atLeast(50, &classURL64)},
		{kind: "rubygems-token", before: alone, keywords: words("rubygems_"), match: atLeast(48, &classHex)},
		{kind: "dockerhub-token", before: alone, keywords: words("dckr_pat_", "dckr_oat_"), match: atLeast(24, &classURL64)},
		{kind: "digitalocean-token", before: alone, keywords: words("dop_v1_", "doo_v1_", "dor_v1_"), match: atLeast(64, &classHex)},
		{kind: "databricks-token", before: alone, keywords: words("dapi"), match: atLeast(32, &classHex)},
		{kind: "sendgrid-key", before: alone, keywords: words("SG."), match: mixed(60, &classDotted)},
		{kind: "shopify-token", before: alone, keywords: words("shpat_", "shpca_", "shppa_", "shpss_"), match: atLeast(32, &classHex)},
		{kind: "vault-token", before: alone, keywords: words("hvs.", "hvb.", "hvr."), match: mixed(24, &classURL64)},
		{kind: "linear-key", before: alone, keywords: words("lin_api_"), match: atLeast(32, &classAlnum)},
		{kind: "age-key", before: alone, keywords: words("AGE-SECRET-KEY-1"), match: atLeast(40, &classAlnum)},
		{kind: "sandboxd-key", before: alone, keywords: words("sbx_"), match: mixed(40, &classWord)},
		{kind: "jwt", before: outermost, keywords: words("eyJ"), match: jsonWebToken},
		{kind: "bearer-token", keep: true, keywords: words("Bearer ", "bearer ", "BEARER "), match: mixed(20, &classToken)},
		{kind: "basic-credentials", keep: true, keywords: words("Authorization: Basic ", "authorization: Basic ", "authorization: basic "), match: atLeast(8, &classStd64)},
		{kind: "url-password", keep: true, keywords: words("://"), match: urlPassword},
		{kind: "private-key", keep: true, keywords: words("-----BEGIN "), match: keyBlock},
	}
}

func words(w ...string) []string { return w }
