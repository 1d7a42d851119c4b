"""Monitoring: Prometheus rules, Alertmanager routes and Grafana dashboards, made from portfolios."""
